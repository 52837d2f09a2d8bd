//! The request source of a flow: templates, chosen by weight.

use rand::Rng;

use crate::template::{Draw, Template};

/// Renders requests one at a time.
#[derive(Debug)]
pub struct RequestSource {
    /// Each template with the cumulative weight up to and including its own.
    templates: Vec<(u64, Template)>,
    draw: Draw,
}

impl RequestSource {
    /// Chooses among `templates` by weight. Panics if `templates` is empty.
    #[must_use]
    pub fn new(templates: &[(u32, Template)], draw: Draw) -> Self {
        assert!(!templates.is_empty(), "a flow sends something");
        let mut sum = 0;
        let templates = templates
            .iter()
            .map(|(weight, template)| {
                sum += u64::from(*weight);
                (sum, template.clone())
            })
            .collect();
        Self { templates, draw }
    }

    /// Appends the next request and returns the number of commands, which is more than one for some
    /// templates.
    #[inline]
    pub fn render_next(&mut self, out: &mut Vec<u8>) -> u64 {
        let (last_sum, last) = &self.templates[self.templates.len() - 1];
        let template = if self.templates.len() == 1 {
            last
        } else {
            let drawn = self.draw.rng.next_u64() % last_sum;
            self.templates.iter().find(|(sum, _)| drawn < *sum).map_or(last, |(_, template)| template)
        };
        template.render(&mut self.draw, out);
        template.command_count()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;
    use crate::distribution::{Distribution, KeyPicker, Share};
    use crate::keys::KeyShape;
    use crate::values::ValueSource;

    #[test]
    fn weights_are_kept() {
        let keys = KeyShape::new("key:", 16, 10).unwrap();
        let values = ValueSource::new("8".parse().unwrap());
        let templates = [(80, "GET {key}"), (15, "SET {key} {value}"), (5, "PING")]
            .map(|(weight, command)| (weight, Template::parse(command, &keys, &values).unwrap()));
        let picker = KeyPicker::new(Distribution::Uniform, 10, Share { index: 0, count: 1 }).unwrap();
        let mut source =
            RequestSource::new(&templates, Draw::new(SmallRng::seed_from_u64(5), picker, values));
        let mut counts = [0; 3];
        for _ in 0..100_000 {
            let mut out = Vec::new();
            source.render_next(&mut out);
            let which = ["GET", "SET", "PING"]
                .iter()
                .position(|name| out.windows(name.len()).any(|w| w == name.as_bytes()));
            counts[which.unwrap()] += 1;
        }
        for (count, expected) in counts.into_iter().zip([80_000, 15_000, 5_000]) {
            assert!((count - expected as i64).abs() < 600, "{counts:?}");
        }
    }
}
