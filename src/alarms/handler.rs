//! Elastic-Job's `jobErrorHandlerType` with its properties, as a receiver of one job's own: EMAIL, DINGTALK and WECHAT, with the
//! names and defaults of Elastic-Job 3.x. Whoever may apply a job could have this coordinator connect to any server; so only to
//! hosts that the configuration allows.

use std::collections::BTreeMap;

use rosterd_domain::id::JobName;

use super::settings::{Form, Mail, Receiver, Security, Text};

/// The name of the rule that such a job has.
pub const RULE: &str = "jobErrorHandlerType";

/// The receiver that a job names; `None`: the type notifies nobody. The text says why the receiver cannot be used.
pub fn receiver(
    job: &JobName,
    kind: &str,
    props: &BTreeMap<String, String>,
    hosts: &[String],
) -> Option<Result<Receiver, String>> {
    let form = match kind {
        "EMAIL" => mail(props),
        "DINGTALK" => dingtalk(props),
        "WECHAT" => webhook(props, "wechat.webhook").map(|url| Form::WeCom { url: Text::Secret(url) }),
        _ => return None,
    };
    let allowed = form.and_then(|form| {
        let host = host(&form)?;
        if hosts.iter().any(|known| known.eq_ignore_ascii_case(&host)) {
            return Ok(Receiver { name: format!("job {job}"), form });
        }
        Err(format!("{host} is not among alarms.job_hosts: whoever runs the coordinators adds it there"))
    });
    Some(allowed.map_err(|why| format!("jobErrorHandlerType {kind}: {why}")))
}

fn required<'a>(props: &'a BTreeMap<String, String>, name: &str) -> Result<&'a str, String> {
    let found = props.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
    found.ok_or_else(|| format!("props.{name} is not set"))
}

fn webhook(props: &BTreeMap<String, String>, name: &str) -> Result<String, String> {
    required(props, name).map(str::to_owned)
}

fn dingtalk(props: &BTreeMap<String, String>) -> Result<Form, String> {
    let optional = |name: &str| props.get(name).filter(|value| !value.is_empty()).cloned();
    Ok(Form::DingTalk {
        url: Text::Secret(webhook(props, "dingtalk.webhook")?),
        secret: optional("dingtalk.secret").map(Text::Secret),
        keyword: optional("dingtalk.keyword"),
    })
}

fn mail(props: &BTreeMap<String, String>) -> Result<Form, String> {
    let list = |name: &str| -> Vec<String> {
        let text = props.get(name).map(String::as_str).unwrap_or_default();
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let port = required(props, "email.port")?;
    let port = port.parse().map_err(|_| format!("props.email.port {port:?} is not a port"))?;
    let secure = props.get("email.useSsl").is_none_or(|value| value.eq_ignore_ascii_case("true"));
    let login = match (props.get("email.username"), props.get("email.password")) {
        (Some(user), Some(password)) => Some((user.clone(), Text::Secret(password.clone()))),
        _ => None,
    };
    let to = list("email.to");
    if to.is_empty() {
        return Err("props.email.to is not set".to_owned());
    }
    let subject = props.get("email.subject").map_or("ElasticJob error message", String::as_str);
    Ok(Form::Email(Box::new(Mail {
        host: required(props, "email.host")?.to_owned(),
        port,
        security: if secure { Security::Tls } else { Security::Plain },
        login,
        from: required(props, "email.from")?.to_owned(),
        to,
        cc: list("email.cc"),
        bcc: list("email.bcc"),
        subject: subject.to_owned(),
    })))
}

/// The host that a form connects to. A job's webhook is HTTPS, whatever it says.
fn host(form: &Form) -> Result<String, String> {
    let url = match form {
        Form::Email(mail) => return Ok(mail.host.clone()),
        Form::DingTalk { url: Text::Secret(url), .. } | Form::WeCom { url: Text::Secret(url) } => url,
        _ => return Err("it is no receiver of a job".to_owned()),
    };
    let parsed: http::Uri = url.parse().map_err(|_| "its webhook is not a URL".to_owned())?;
    match (parsed.scheme_str(), parsed.host()) {
        (Some("https"), Some(host)) if parsed.port().is_none() => Ok(host.to_owned()),
        _ => Err("its webhook is not https://host/path".to_owned()),
    }
}
