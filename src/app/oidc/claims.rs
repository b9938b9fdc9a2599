//! What a provider says of a person, as a name and rights: by the configuration, which names the claims and what their values
//! mean. A person without a matching rule has no role.

use rosterd_api::access::jobs::JobScope;
use rosterd_api::access::provider::Identity;
use rosterd_api::layers::methods::Role;
use rosterd_session::code::{Code, Refusal};
use serde_json::Value;

use crate::config::Oidc;

/// Longest name.
const LONGEST: usize = 128;
/// Most bytes of jobs: they are in the session's cookie, and a browser keeps none of more than 4 KiB.
const JOBS: usize = 2000;

/// Whether nothing more needs to be asked.
pub(super) fn are_all_there(config: &Oidc, claims: &Value) -> bool {
    let wanted = [Some(&config.role_claim), Some(&config.name_claim), config.jobs_claim.as_ref()];
    wanted.into_iter().flatten().all(|name| !find(claims, name).is_null())
}

/// Adds what was not granting before: what was signed stays.
pub(super) fn add(claims: &mut Value, more: Value) {
    let (Some(claims), Value::Object(more)) = (claims.as_object_mut(), more) else { return };
    for (name, value) in more {
        claims.entry(name).or_insert(value);
    }
}

/// A claim by its name, or by its path: `realm_access.roles`.
fn find<'a>(claims: &'a Value, name: &str) -> &'a Value {
    if !claims[name].is_null() {
        return &claims[name];
    }
    name.split('.').fold(claims, |value, part| &value[part])
}

/// A text, or a list of them.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Who it is, and what that person may do.
pub(super) fn identity(config: &Oidc, claims: &Value) -> Result<Identity, Refusal> {
    let name = [config.name_claim.as_str(), "email", "sub"]
        .into_iter()
        .find_map(|claim| find(claims, claim).as_str());
    let name: String = name.unwrap_or_default().chars().filter(|c| !c.is_control()).take(LONGEST).collect();
    let denied = |what: String| Refusal::new(Code::PermissionDenied, what);
    if name.trim().is_empty() {
        return Err(denied(
            "the identity provider says no name of the person: set oidc_name_claim".to_owned(),
        ));
    }
    // Told from the names of credentials, which nobody at the provider can take.
    let name = format!("oidc:{name}");
    let granting = texts(find(claims, &config.role_claim));
    let given = |role: &Role| {
        let mut roles = config.roles.iter();
        roles.any(|(granted, value)| granted == role.as_str() && granting.contains(&value.as_str()))
    };
    let Some(role) = [Role::Admin, Role::Operator, Role::Viewer].into_iter().find(given) else {
        return Err(denied(format!(
            "{name}: nothing in the claim {} gives a role: have the person given one there, or add the value to oidc_roles",
            config.role_claim
        )));
    };
    let jobs = match &config.jobs_claim {
        None => Vec::new(),
        Some(claim) => {
            let jobs: Vec<String> = texts(find(claims, claim)).into_iter().map(str::to_owned).collect();
            // No jobs at all would stand for all of them.
            if jobs.is_empty() {
                return Err(denied(format!(
                    "{name}: the claim {claim} names no job, and oidc_jobs_claim asks for it"
                )));
            }
            JobScope::parse(jobs.iter().cloned())
                .map_err(|why| denied(format!("{name}: the claim {claim}: {why}")))?;
            if jobs.iter().any(|job| job == "*") {
                return Ok(Identity { name, role, jobs: Vec::new() });
            }
            // Each with its quotes and its comma.
            let bytes: usize = jobs.iter().map(|job| job.len() + 3).sum();
            if bytes > JOBS {
                return Err(denied(format!(
                    "{name}: the claim {claim} names {} jobs in {bytes} bytes, and a session holds {JOBS}: have it name patterns, such as billing-*",
                    jobs.len()
                )));
            }
            jobs
        }
    };
    Ok(Identity { name, role, jobs })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(jobs: Option<&str>) -> Oidc {
        Oidc {
            issuer: "https://id.example".into(),
            name: "id.example".into(),
            client_id: "console".into(),
            client_secret_file: None,
            ca: None,
            redirect_url: None,
            scopes: "openid".into(),
            name_claim: "preferred_username".into(),
            role_claim: "realm.groups".into(),
            roles: vec![
                ("viewer".into(), "all".into()),
                ("operator".into(), "ops".into()),
                ("admin".into(), "sre".into()),
            ],
            jobs_claim: jobs.map(str::to_owned),
        }
    }

    fn of(config: &Oidc, claims: &Value) -> Result<(String, Role, Vec<String>), String> {
        let found = identity(config, claims).map_err(|refusal| refusal.message)?;
        Ok((found.name, found.role, found.jobs))
    }

    #[test]
    fn the_largest_role_that_a_claim_gives_is_had() {
        let claims =
            |groups: Value| json!({ "sub": "1", "preferred_username": "ann", "realm": { "groups": groups } });
        let role = |groups| of(&config(None), &claims(groups)).map(|(_, role, _)| role);
        assert_eq!(role(json!(["x", "all", "ops"])).unwrap(), Role::Operator);
        assert_eq!(role(json!(["sre", "all"])).unwrap(), Role::Admin);
        assert_eq!(role(json!("all")).unwrap(), Role::Viewer);
        for none in [json!(["x"]), json!([]), json!({ "sre": true }), json!("allx"), Value::Null] {
            assert!(role(none.clone()).unwrap_err().contains("add the value to oidc_roles"), "{none}");
        }
        let flat = json!({ "sub": "1", "realm.groups": ["ops"] });
        assert_eq!(of(&config(None), &flat).unwrap().0, "oidc:1", "the subject, without another name");
    }

    #[test]
    fn jobs_are_those_of_the_claim_and_never_all_by_omission() {
        let claims = |jobs: Value| json!({ "sub": "1", "realm": { "groups": "ops" }, "jobs": jobs });
        let jobs = |jobs| of(&config(Some("jobs")), &claims(jobs)).map(|(_, _, jobs)| jobs);
        assert_eq!(jobs(json!(["billing-*", "report"])).unwrap(), ["billing-*", "report"]);
        for all in [json!("*"), json!(["a", "*"])] {
            assert_eq!(jobs(all).unwrap(), Vec::<String>::new());
        }
        for none in [Value::Null, json!([]), json!(7)] {
            assert!(jobs(none.clone()).unwrap_err().contains("names no job"), "{none}");
        }
        assert!(jobs(json!(["a/b"])).unwrap_err().contains("is not a job name or pattern"));
        let many: Vec<String> = (0..30).map(|number| format!("{number}{}", "a".repeat(80))).collect();
        assert!(jobs(json!(many)).unwrap_err().contains("and a session holds 2000: have it name patterns"));
    }

    #[test]
    fn what_was_signed_is_not_replaced_by_what_was_asked() {
        let mut claims = json!({ "sub": "1", "groups": ["all"] });
        add(&mut claims, json!({ "sub": "2", "groups": ["sre"], "email": "a@b" }));
        assert_eq!(claims, json!({ "sub": "1", "groups": ["all"], "email": "a@b" }));
    }
}
