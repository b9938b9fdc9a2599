use std::collections::BTreeMap;

use super::name;
use crate::handler::receiver;
use crate::settings::{Form, Security, Settings, Text};

fn props(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

const MAIL: [(&str, &str); 7] = [
    ("email.host", "smtp.example"),
    ("email.port", "465"),
    ("email.username", "ann"),
    ("email.password", "secret"),
    ("email.from", "a@example.org"),
    ("email.to", "b@example.org, c@example.org"),
    ("email.cc", ""),
];

#[test]
fn elastic_jobs_handlers_become_receivers() {
    let hosts = ["smtp.example".to_owned(), "oapi.dingtalk.com".to_owned(), "qyapi.weixin.qq.com".to_owned()];
    let of = |kind: &str, pairs: &[(&str, &str)]| receiver(&name("j"), kind, &props(pairs), &hosts);
    let Some(Ok(mail)) = of("EMAIL", &MAIL) else { panic!("{:?}", of("EMAIL", &MAIL)) };
    let Form::Email(form) = &mail.form else { panic!("{mail:?}") };
    assert_eq!((form.port, form.security, form.to.len(), form.cc.len()), (465, Security::Tls, 2, 0));
    assert_eq!(form.subject, "ElasticJob error message");
    assert!(!format!("{mail:?}").contains("secret"), "{mail:?}");
    let plain = of("EMAIL", &[&MAIL[..], &[("email.useSsl", "false")]].concat()).unwrap().unwrap();
    assert!(matches!(plain.form, Form::Email(mail) if mail.security == Security::Plain));
    let ding = "https://oapi.dingtalk.com/robot/send?access_token=t";
    let ding =
        of("DINGTALK", &[("dingtalk.webhook", ding), ("dingtalk.secret", "s"), ("dingtalk.keyword", "k")]);
    let wanted = Form::DingTalk {
        url: Text::Secret("https://oapi.dingtalk.com/robot/send?access_token=t".into()),
        secret: Some(Text::Secret("s".into())),
        keyword: Some("k".into()),
    };
    assert_eq!(ding.unwrap().unwrap().form, wanted);
    let wechat =
        of("WECHAT", &[("wechat.webhook", "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k")]);
    assert_eq!(wechat.unwrap().unwrap().form.as_str(), "wecom");
    for other in ["LOG", "THROW", "IGNORE", "own.Handler"] {
        assert_eq!(of(other, &MAIL), None);
    }
}

#[test]
fn a_job_names_no_server_that_the_configuration_does_not_allow() {
    let usual = Settings::default().job_hosts;
    let refused = |kind: &str, pairs: &[(&str, &str)]| {
        receiver(&name("j"), kind, &props(pairs), &usual).unwrap().unwrap_err()
    };
    let refusal = refused("EMAIL", &MAIL);
    assert!(
        refusal.contains("smtp.example is not among alarms.job_hosts") && !refusal.contains("secret"),
        "{refusal}"
    );
    for (url, wanted) in [
        ("https://169.254.169.254/latest", "169.254.169.254 is not among alarms.job_hosts"),
        ("http://oapi.dingtalk.com/robot/send", "not https://host/path"),
        ("https://oapi.dingtalk.com:8443/robot/send", "not https://host/path"),
        ("https://oapi.dingtalk.com.evil.example/", "oapi.dingtalk.com.evil.example is not among"),
        ("https://oapi.dingtalk.com@evil.example/", "evil.example is not among"),
        ("no url", "not a URL"),
        ("", "props.dingtalk.webhook is not set"),
    ] {
        let refusal = refused("DINGTALK", &[("dingtalk.webhook", url)]);
        assert!(refusal.contains(wanted), "{url}: {refusal}");
    }
    assert!(refused("EMAIL", &[("email.port", "x")]).contains("is not a port"));
}
