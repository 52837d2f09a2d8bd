//! Lists of CPUs: `0,2,8-11` and, with a stride, `0-20:2`.

/// A text that is not a list of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuListError;

/// Largest CPU number in a list: the limit of the kernel's masks, and a bound on the list's length.
const CPU_MAX: usize = 8191;

/// The CPUs of a list, in its order, without duplicates. An empty text is an empty list.
pub fn parse_cpu_list(text: &str) -> Result<Vec<usize>, CpuListError> {
    let mut cpus = Vec::new();
    for part in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
        let (range, stride) = match part.split_once(':') {
            Some((range, stride)) => (range, number(stride)?),
            None => (part, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(range)?, number(range)?),
        };
        if stride == 0 || first > last || last > CPU_MAX {
            return Err(CpuListError);
        }
        for cpu in (first..=last).step_by(stride) {
            if !cpus.contains(&cpu) {
                cpus.push(cpu);
            }
        }
    }
    Ok(cpus)
}

pub(crate) fn check_cpu_list(text: &str) -> Result<(), &'static str> {
    parse_cpu_list(text).map(drop).map_err(|_| "argument must be a list of CPUs, such as 0,2,8-11 or 0-20:2")
}

fn number(text: &str) -> Result<usize, CpuListError> {
    text.trim().parse().map_err(|_| CpuListError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (text, expected) in [
            ("", Ok(vec![])),
            ("3", Ok(vec![3])),
            ("0,2,3", Ok(vec![0, 2, 3])),
            ("8-11, 0", Ok(vec![8, 9, 10, 11, 0])),
            ("0-6:2,4", Ok(vec![0, 2, 4, 6])),
            ("3-1", Err(CpuListError)),
            ("1,,2", Err(CpuListError)),
            ("0-6:0", Err(CpuListError)),
            ("a", Err(CpuListError)),
            ("0-99999999", Err(CpuListError)),
        ] {
            assert_eq!(parse_cpu_list(text), expected, "{text}");
        }
    }
}
