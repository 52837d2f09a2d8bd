//! All figures as JSON: an object of sections, each an object of figures. A figure with labels is an object by label, a record
//! one by field.

use serde_json::{Map, Number, Value as Json};

use super::figure::{Section, Value};
use super::gathered::Gathered;
use super::labels::Label;

/// The text of the object.
pub fn text(sections: &[Section], gathered: &Gathered<'_>) -> String {
    let of_section = |section: &Section| (section.name.to_owned(), object_of(section, gathered));
    Json::Object(sections.iter().map(of_section).collect()).to_string()
}

fn object_of(section: &Section, gathered: &Gathered<'_>) -> Json {
    let mut figures = Map::new();
    for figure in section.figures {
        let name = figure.name_without_label();
        match figure.labels {
            None => {
                if let Some(value) = (figure.read)(gathered, &Label::NONE) {
                    figures.insert(name, of(value));
                }
            }
            Some(labels) => {
                let mut by_label = Map::new();
                labels.visit(gathered, |label| {
                    if let Some(value) = (figure.read)(gathered, label) {
                        by_label.insert(label.text(), of(value));
                    }
                });
                figures.insert(name, Json::Object(by_label));
            }
        }
    }
    Json::Object(figures)
}

fn of(value: Value<'_>) -> Json {
    match value {
        Value::Whole(number) | Value::Human(number) => number.into(),
        Value::Signed(number) | Value::Nothing(number) => number.into(),
        Value::Hundredths(number)
        | Value::Mean(number)
        | Value::Thousandths(number)
        | Value::Millionths(number)
        | Value::Percent(number) => Number::from_f64(number).map_or(Json::Null, Json::Number),
        Value::Text(text) => text.into_owned().into(),
        Value::Pairs(pairs) => {
            Json::Object(pairs.into_iter().map(|(name, value)| (name.into_owned(), of(value))).collect())
        }
    }
}
