//! Completes the document with what is the same for all handlers: the statuses that the layers return, that refusals
//! are `application/problem+json`, the authentication schemes, a name for each operation. Derived from the table of
//! rights, so that each route's possible refusals are written down once.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi as Document;

use super::problem::KIND;
use super::table::{self, Found};
use crate::layers::takes::Access;

/// The statuses that every operation may return.
const ALL: [(u16, &str); 5] = [
    (
        403,
        "The request comes from a web page of another site, or its host is not one that this coordinator serves.",
    ),
    (429, "Too many concurrent requests (OVERLOADED): use another coordinator, or retry later."),
    (500, "An internal error: a defect in the coordinator (DEFECT)."),
    (503, "The store is unavailable, the coordinator is stopping, or the outcome of a change is unknown."),
    (504, "The request took longer than request_timeout."),
];

/// Further statuses that a change may return.
const CHANGES: [(u16, &str); 3] = [
    (404, "The job, item, machine or instance does not exist."),
    (
        409,
        "The change conflicts with another one, or with the current state: read the state again, and retry.",
    ),
    (412, "The current state does not allow the change."),
];

/// Completes a document that was generated from the handlers.
pub(super) fn complete(document: Document) -> Document {
    let mut value = serde_json::to_value(&document).unwrap_or_default();
    for (path, methods) in value["paths"].as_object_mut().into_iter().flatten() {
        for (method, operation) in methods.as_object_mut().into_iter().flatten() {
            let method: Method = method.to_uppercase().parse().unwrap_or_default();
            if let Some(Found::Route(route)) = table::find(&method, path) {
                answers(operation, &method, route.access);
            }
        }
    }
    schemes(&mut value);
    open(&mut value);
    // It was a document before, and only got further valid parts.
    serde_json::from_value(value).unwrap_or(document)
}

fn answers(operation: &mut Value, method: &Method, access: Access) {
    let takes = operation["parameters"].as_array().is_some_and(|all| !all.is_empty());
    let body = operation["requestBody"].is_object();
    let mut may: BTreeMap<u16, &str> = ALL.into_iter().collect();
    if access != Access::Anybody {
        may.insert(
            401,
            "The caller is not authenticated: send a credential, a client certificate or a session.",
        );
        may.insert(403, "The caller is not authorized: its role is too low, its credential does not cover the job, or the request comes from a web page of another site.");
        operation["security"] = json!([{ "credential": [] }, { "password": [] }, { "session": [] }]);
    }
    if takes || body {
        may.insert(400, "A path, parameter, header or body is invalid: the detail names it.");
    }
    if body {
        may.insert(413, "The body is longer than max_receive_bytes.");
    }
    if !method.is_safe() && access != Access::Anybody {
        may.extend(CHANGES);
    }
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    for (status, what) in may {
        responses.entry(status.to_string()).or_insert_with(|| json!({ "description": what }));
    }
    for (status, response) in responses {
        if !status.starts_with('2') && !status.starts_with('3') {
            if response["description"].as_str().unwrap_or_default().is_empty() {
                response["description"] = json!("The request is refused: the problem's code says why.");
            }
            response["content"] = json!({ KIND: { "schema": { "$ref": "#/components/schemas/Problem" } } });
        }
    }
}

/// An object without described fields, such as a job's configuration, may have any: otherwise a generated client
/// assumes that it has none.
fn open(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let plain = fields.get("type").is_some_and(|kind| kind == "object");
            let described =
                ["properties", "additionalProperties"].iter().any(|name| fields.contains_key(*name));
            if plain && !described {
                fields.insert("additionalProperties".to_owned(), Value::Bool(true));
            }
            fields.values_mut().for_each(open);
        }
        Value::Array(values) => values.iter_mut().for_each(open),
        _ => {}
    }
}

/// The authentication schemes. A coordinator without credentials requires none.
fn schemes(value: &mut Value) {
    let schemes = json!({
        "credential": { "type": "http", "scheme": "bearer", "description": "The secret that `rosterd credentials add` prints." },
        "password": { "type": "http", "scheme": "basic", "description": "The same secret as the password, with any user name: for browsers." },
        "session": { "type": "apiKey", "in": "cookie", "name": "rosterd_session", "description": "POST /api/session sets it. Changes also need the header X-CSRF-Token." },
    });
    if let Some(components) = value["components"].as_object_mut() {
        components.insert("securitySchemes".to_owned(), schemes);
    } else {
        value["components"] = Value::Object(Map::from_iter([("securitySchemes".to_owned(), schemes)]));
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::DOCUMENT;

    #[test]
    fn every_refusal_is_a_problem_and_every_operation_has_those_of_the_layers() {
        let value = serde_json::to_value(&*DOCUMENT).unwrap();
        let mut operations = 0;
        for (path, methods) in value["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                operations += 1;
                let responses = operation["responses"].as_object().unwrap();
                for (status, response) in responses.iter().filter(|(status, _)| !status.starts_with('2')) {
                    let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
                    assert_eq!(schema, "#/components/schemas/Problem", "{method} {path} {status}");
                    assert!(
                        !response["description"].as_str().unwrap().is_empty(),
                        "{method} {path} {status}"
                    );
                    assert_eq!(response["content"].as_object().unwrap().len(), 1, "{method} {path} {status}");
                }
                for status in ["403", "429", "500", "503", "504"] {
                    assert!(responses.contains_key(status), "{method} {path} {status}");
                }
                let open = path == "/api/session";
                assert!(responses.contains_key("401") || open, "{method} {path}");
                assert!(!operation["operationId"].as_str().unwrap().is_empty(), "{method} {path}");
            }
        }
        assert!(operations > 30);
        let body = &value["paths"]["/api/jobs/config"]["put"]["requestBody"]["content"];
        assert_eq!(body["application/json"]["schema"]["type"], "object", "a client does not encode it twice");
        assert_eq!(body["application/json"]["schema"]["additionalProperties"], true);
        assert_eq!(body["application/yaml"]["schema"]["type"], "string");
        let count = &value["paths"]["/api/jobs/count"]["get"]["responses"]["200"]["content"];
        assert!(count["application/json"].is_object(), "a number is JSON, too: {count}");
    }
}
