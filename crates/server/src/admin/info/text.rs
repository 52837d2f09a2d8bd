//! The text of `INFO`: `name:value` lines in sections. Exporters request it often, so numbers are written
//! without the standard formatter.

use wire::number::{write_i64, write_u64};

/// The text, made of sections.
#[derive(Default)]
pub struct Text(Vec<u8>);

/// A value in a line.
pub trait Figure {
    /// Appends the value to `out`.
    fn write(&self, out: &mut Vec<u8>);
}

/// A number with two decimals.
pub struct Hundredths(pub f64);

/// A number with six decimals.
pub struct Millionths(pub f64);

/// A number of bytes for human readers: in the largest unit that fits, with two decimals.
pub struct Human(pub u64);

impl Text {
    /// Returns an empty text with capacity for all sections.
    pub fn new() -> Self {
        Self(Vec::with_capacity(16 << 10))
    }

    /// The allocated bytes of the text.
    pub fn allocated_size(&self) -> usize {
        self.0.capacity()
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str) {
        if !self.0.is_empty() {
            self.0.extend_from_slice(b"\r\n");
        }
        self.0.extend_from_slice(b"# ");
        self.0.extend_from_slice(title.as_bytes());
        self.0.extend_from_slice(b"\r\n");
    }

    /// Writes one line.
    pub fn line(&mut self, name: &str, value: impl Figure) {
        self.write_line(name, &value);
    }

    /// Writes several lines.
    pub fn lines(&mut self, lines: &[(&str, &dyn Figure)]) {
        for (name, value) in lines {
            self.write_line(name, *value);
        }
    }

    fn write_line(&mut self, name: &str, value: &dyn Figure) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(b':');
        value.write(&mut self.0);
        self.0.extend_from_slice(b"\r\n");
    }

    /// Writes a number under two names, the second time for human readers.
    pub fn size(&mut self, name: &str, size: u64) {
        self.write_line(name, &size);
        self.0.extend_from_slice(name.as_bytes());
        self.write_line("_human", &Human(size));
    }

    /// Returns the whole text.
    pub fn into_string(self) -> String {
        // Only UTF-8 text was appended.
        String::from_utf8(self.0).unwrap_or_default()
    }
}

macro_rules! figures {
    ($write:ident as $wide:ty: $($number:ty),*) => {$(
        impl Figure for $number {
            fn write(&self, out: &mut Vec<u8>) {
                $write(out, *self as $wide);
            }
        }
    )*};
}

figures!(write_u64 as u64: u8, u16, u32, u64, usize);
figures!(write_i64 as i64: i32, i64);

impl Figure for &str {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Figure for String {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Figure for Hundredths {
    fn write(&self, out: &mut Vec<u8>) {
        write_fixed(out, self.0, 2);
    }
}

impl Figure for Millionths {
    fn write(&self, out: &mut Vec<u8>) {
        write_fixed(out, self.0, 6);
    }
}

impl Figure for Human {
    fn write(&self, out: &mut Vec<u8>) {
        let size = self.0 as f64;
        let (number, unit) = match self.0 {
            0..1024 => {
                write_u64(out, self.0);
                return out.push(b'B');
            }
            1024..0x10_0000 => (size / 1024.0, b'K'),
            0x10_0000..0x4000_0000 => (size / f64::from(1 << 20), b'M'),
            _ => (size / f64::from(1 << 30), b'G'),
        };
        write_fixed(out, number, 2);
        out.push(unit);
    }
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
    use super::*;

    fn shown(figure: impl Figure) -> String {
        let mut out = Vec::new();
        figure.write(&mut out);
        String::from_utf8(out).expect("the output is UTF-8")
    }

    #[test]
    fn numbers() {
        assert_eq!(shown(-1), "-1");
        assert_eq!(shown(u64::MAX), u64::MAX.to_string());
        assert_eq!(shown(i64::MIN), i64::MIN.to_string());
        for number in [0.0, 0.01, 1.0, 12.3, 99.999, 1024.5, 123_456_789.12, -3.5] {
            assert_eq!(shown(Hundredths(number)), format!("{number:.2}"));
            assert_eq!(shown(Millionths(number)), format!("{number:.6}"));
        }
        for (size, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1536, "1.50K"),
            (5 << 20, "5.00M"),
            ((5 << 30) + (1 << 29), "5.50G"),
        ] {
            assert_eq!(shown(Human(size)), text);
        }
    }

    #[test]
    fn sections_and_lines() {
        let mut text = Text::new();
        text.section("A");
        text.line("one", 1);
        text.section("B");
        text.lines(&[("two", &"2"), ("three", &Hundredths(3.0))]);
        text.size("four", 2048);
        let expected = "# A\r\none:1\r\n\r\n# B\r\ntwo:2\r\nthree:3.00\r\nfour:2048\r\nfour_human:2.00K\r\n";
        assert_eq!(text.into_string(), expected);
    }
}
