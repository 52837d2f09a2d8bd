//! The text of `INFO`: `name:value` lines in sections. Exporters request it often, so numbers are written
//! without the standard formatter.

use wire::number::{write_i64, write_u64};

use super::figure::{Figure, Section, Value};
use super::gathered::Gathered;
use super::labels::Label;

/// The text, made of sections.
#[derive(Default)]
pub struct Text(Vec<u8>);

impl Text {
    /// Returns an empty text with capacity for all sections.
    pub fn new() -> Self {
        Self(Vec::with_capacity(16 << 10))
    }

    /// The allocated bytes of the text.
    pub fn allocated_size(&self) -> usize {
        self.0.capacity()
    }

    /// Writes a section: its figures in their order, adjacent ones with equal labels label by label.
    pub fn section(&mut self, section: &Section, gathered: &Gathered<'_>) {
        self.heading(section.title);
        for group in section.figures.chunk_by(|one, next| one.labels == next.labels) {
            match group[0].labels {
                Some(labels) => labels.visit(gathered, |label| self.group(group, gathered, label)),
                None => self.group(group, gathered, &Label::NONE),
            }
        }
    }

    fn heading(&mut self, title: &str) {
        if !self.0.is_empty() {
            self.0.extend_from_slice(b"\r\n");
        }
        self.0.extend_from_slice(b"# ");
        self.0.extend_from_slice(title.as_bytes());
        self.0.extend_from_slice(b"\r\n");
    }

    fn group(&mut self, figures: &[Figure], gathered: &Gathered<'_>, label: &Label<'_>) {
        for figure in figures {
            // Not moved: it was just written in parts, which a copy would wait for.
            let value = (figure.read)(gathered, label);
            if let Some(value) = &value {
                self.line(figure, label, value);
            }
        }
    }

    fn line(&mut self, figure: &Figure, label: &Label<'_>, value: &Value<'_>) {
        match figure.labels {
            None => self.0.extend_from_slice(figure.name.as_bytes()),
            Some(_) => self.name(figure.name_parts(), label),
        }
        self.0.push(b':');
        write_value(&mut self.0, value);
        self.0.extend_from_slice(b"\r\n");
    }

    fn name(&mut self, (before, after): (&str, &str), label: &Label<'_>) {
        self.0.extend_from_slice(before.as_bytes());
        match label.name {
            Some(name) => self.0.extend_from_slice(name.as_bytes()),
            None => write_u64(&mut self.0, label.index as u64),
        }
        self.0.extend_from_slice(after.as_bytes());
    }

    /// Returns the whole text.
    pub fn into_string(self) -> String {
        // Only UTF-8 text was appended.
        String::from_utf8(self.0).unwrap_or_default()
    }
}

fn write_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Whole(number) => write_u64(out, *number),
        Value::Signed(number) | Value::Nothing(number) => write_i64(out, *number),
        Value::Hundredths(number) => write_fixed(out, *number, 2),
        Value::Mean(number) => out.extend_from_slice(format!("{number:.2}").as_bytes()),
        Value::Thousandths(number) => write_fixed(out, *number, 3),
        Value::Millionths(number) => write_fixed(out, *number, 6),
        Value::Percent(number) => {
            write_fixed(out, *number, 2);
            out.push(b'%');
        }
        Value::Human(size) => write_human(out, *size),
        Value::Text(text) => out.extend_from_slice(text.as_bytes()),
        Value::Pairs(pairs) => {
            for (index, (name, value)) in pairs.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(name.as_bytes());
                out.push(b'=');
                write_value(out, value);
            }
        }
    }
}

fn write_human(out: &mut Vec<u8>, bytes: u64) {
    let size = bytes as f64;
    let (number, unit) = match bytes {
        0..1024 => {
            write_u64(out, bytes);
            return out.push(b'B');
        }
        1024..0x10_0000 => (size / 1024.0, b'K'),
        0x10_0000..0x4000_0000 => (size / f64::from(1 << 20), b'M'),
        _ => (size / f64::from(1 << 30), b'G'),
    };
    write_fixed(out, number, 2);
    out.push(unit);
}

/// Writes a number with this many decimals, rounded half up. Exact for `INFO`: for values below 2^53 units of
/// the last digit.
fn write_fixed(out: &mut Vec<u8>, number: f64, decimals: u32) {
    let scale = 10_u64.pow(decimals);
    if number < 0.0 {
        out.push(b'-');
    }
    let scaled = (number.abs() * scale as f64).round() as u64;
    write_u64(out, scaled / scale);
    out.push(b'.');
    let fraction = scaled % scale;
    for place in (0..decimals).rev() {
        out.push(b'0' + (fraction / 10_u64.pow(place) % 10) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::{Kind, Unit};
    use super::super::labels::Labels;
    use super::*;

    fn shown<'a>(value: impl Into<Value<'a>>) -> String {
        let mut out = Vec::new();
        write_value(&mut out, &value.into());
        String::from_utf8(out).expect("the output is UTF-8")
    }

    #[test]
    fn numbers() {
        assert_eq!(shown(-1), "-1");
        assert_eq!(shown(true), "1");
        assert_eq!(shown(u64::MAX), u64::MAX.to_string());
        assert_eq!(shown(i64::MIN), i64::MIN.to_string());
        for number in [0.0, 0.01, 1.0, 12.3, 99.999, 1024.5, 123_456_789.12, -3.5] {
            assert_eq!(shown(Value::Hundredths(number)), format!("{number:.2}"));
            assert_eq!(shown(Value::Thousandths(number)), format!("{number:.3}"));
            assert_eq!(shown(Value::Millionths(number)), format!("{number:.6}"));
            assert_eq!(shown(Value::Percent(number)), format!("{number:.2}%"));
        }
        // As `printf` of C.
        assert_eq!([0.125, 0.375, 2.675].map(|mean| shown(Value::Mean(mean))), ["0.12", "0.38", "2.67"]);
        for (size, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1536, "1.50K"),
            (5 << 20, "5.00M"),
            ((5 << 30) + (1 << 29), "5.50G"),
        ] {
            assert_eq!(shown(Value::Human(size)), text);
        }
    }

    #[test]
    fn lines() {
        let of = |name, labels| Figure {
            name,
            kind: Kind::Text,
            unit: Unit::None,
            doc: "",
            labels,
            read: |_, _| None,
        };
        let mut text = Text::new();
        text.heading("A");
        text.line(&of("one", None), &Label::NONE, &1.into());
        text.heading("B");
        let pairs = Value::record([("keys", 1.into()), ("mean", Value::Hundredths(2.0))]);
        let database = of("db{database}_x", Some(Labels::Database));
        text.line(&database, &Label { index: 2, name: None }, &pairs);
        assert_eq!(text.into_string(), "# A\r\none:1\r\n\r\n# B\r\ndb2_x:keys=1,mean=2.00\r\n");
    }
}
