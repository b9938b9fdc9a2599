//! A result as YAML.

use saphyr::{Mapping, Scalar, Yaml, YamlEmitter};
use serde_json::Value;

use crate::cli::failure::{Code, Failure, Result};

/// The text, without the line that begins a document.
pub(super) fn text(value: &Value) -> Result<String> {
    let mut text = String::new();
    YamlEmitter::new(&mut text).dump(&node(value)).map_err(|error| Failure::failed(Code::Output, error))?;
    Ok(text.strip_prefix("---\n").unwrap_or(&text).to_owned())
}

fn node(value: &Value) -> Yaml<'_> {
    match value {
        Value::Null => Yaml::Value(Scalar::Null),
        Value::Bool(value) => Yaml::Value(Scalar::Boolean(*value)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Yaml::Value(Scalar::Integer(integer)),
            (None, Some(float)) => Yaml::Value(Scalar::FloatingPoint(float.into())),
            (None, None) => Yaml::Value(Scalar::String(number.to_string().into())),
        },
        Value::String(text) => Yaml::Value(Scalar::String(text.as_str().into())),
        Value::Array(values) => Yaml::Sequence(values.iter().map(node).collect()),
        Value::Object(fields) => {
            let field =
                |(name, value)| (Yaml::Value(Scalar::String(String::as_str(name).into())), node(value));
            Yaml::Mapping(fields.iter().map(field).collect::<Mapping<'_>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use saphyr::LoadableYamlNode as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let value = json!([{ "job": "a: b", "items": [0, 1], "cron": "0/5 * * * * ?", "none": null, "no": "no", "n": "7",
            "lines": "a\nb", "ok": true, "half": 0.5, "empty": {}, "list": [] }]);
        let text = text(&value).unwrap();
        let read = Yaml::load_from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read, [node(&value)], "{text}");
        assert!(!text.starts_with("---"), "{text}");
    }
}
