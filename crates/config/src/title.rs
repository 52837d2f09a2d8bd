//! `proc-title-template`: expanding a template.

/// Returns the template with each `{variable}` replaced by its value and without spaces at its ends; `{{`
/// stands for a brace. `None` if a brace is not closed or `value_of` returns `None` for a variable.
pub fn expand_title(template: &str, value_of: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut title = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        title.push_str(before);
        if let Some(after) = after.strip_prefix('{') {
            title.push('{');
            rest = after;
        } else {
            let (variable, after) = after.split_once('}')?;
            title.push_str(&value_of(variable)?);
            rest = after;
        }
    }
    title.push_str(rest);
    Some(title.trim_matches(' ').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_braces() {
        let value_of = |variable: &str| (variable == "x").then(|| "1".to_owned());
        assert_eq!(expand_title("a {x} {{x} ", value_of).as_deref(), Some("a 1 {x}"));
        assert_eq!(expand_title("{y}", value_of), None);
        assert_eq!(expand_title("a {", value_of), None);
    }
}
