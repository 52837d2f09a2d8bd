//! Faults of values in the words that operators know from the logs of Redis and Valkey.

use crate::error::Fault;
use crate::value_type::ValueType;

/// Describes what is wrong with a value of a type.
#[must_use]
pub fn describe(fault: Fault, value_type: ValueType) -> String {
    let kind = match value_type.kind().map(|kind| kind.name()) {
        Some("hash") => "Hash",
        Some("zset") => "Zset",
        Some("set") => "Set",
        Some("stream") => "Stream",
        _ => "List",
    };
    match fault {
        Fault::Ziplist if kind == "List" => "Ziplist integrity check failed.".to_owned(),
        Fault::Ziplist => format!("{kind} ziplist integrity check failed."),
        Fault::Listpack if kind == "List" => "Listpack integrity check failed.".to_owned(),
        Fault::Listpack => format!("{kind} listpack integrity check failed."),
        Fault::Zipmap => "Zipmap integrity check failed.".to_owned(),
        Fault::Intset => "Intset integrity check failed.".to_owned(),
        Fault::StreamEntries => "Stream listpack integrity check failed.".to_owned(),
        Fault::ListNode => "Quicklist integrity check failed.".to_owned(),
        Fault::Duplicate => format!("{kind} integrity check failed: it has an element twice."),
        Fault::Consumer => "Duplicate stream consumer detected.".to_owned(),
        Fault::Delivery => "Duplicated consumer PEL entry, or one that its group does not have.".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value_type::StreamForm;

    #[test]
    fn words_name_type_and_encoding() {
        for (fault, value_type, expected) in [
            (Fault::Ziplist, ValueType::SortedSetZiplist, "Zset ziplist integrity check failed."),
            (Fault::Ziplist, ValueType::ListOfZiplists, "Ziplist integrity check failed."),
            (Fault::Listpack, ValueType::Stream(StreamForm::V3), "Stream listpack integrity check failed."),
            (Fault::Length, ValueType::Hash, "invalid length"),
        ] {
            assert_eq!(describe(fault, value_type), expected);
        }
    }
}
