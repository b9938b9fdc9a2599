//! What is sent, to the letter: as each vendor's public documentation has it. The signatures were made by another program.

use serde_json::{Value, json};

use super::*;
use crate::kind::{AlarmKind, Severity};
use crate::letter::Alarm;
use crate::settings::{Mail, Security};
use crate::tests::{at, name};

fn alarm(job: Option<&str>) -> Alarm {
    let key = job.map_or_else(|| "clock_off@http://a:1".to_owned(), |job| format!("failed:{job}"));
    Alarm {
        key,
        alarm: if job.is_some() { AlarmKind::Failed } else { AlarmKind::ClockOff },
        rule: if job.is_some() { "failed" } else { "clock_off" }.into(),
        severity: if job.is_some() { Severity::Error } else { Severity::Critical },
        job_name: job.map(name),
        text: job.map_or_else(
            || "its <clock> is off & on".to_owned(),
            |job| format!("{job} failed for item 0 once"),
        ),
        since: at(0),
        raised_at: at(1),
        resolved_at: None,
        receivers: Vec::new(),
    }
}

fn letter() -> Letter {
    let over = Alarm { resolved_at: Some(at(3)), ..alarm(Some("日报")) };
    Letter {
        test: false,
        namespace: "ns".into(),
        coordinator: "http://a:1".into(),
        link: Some("https://console.example/rosterd/".into()),
        at: at(5),
        raised: vec![alarm(None), alarm(Some("report"))],
        resolved: vec![over],
        more: 2,
    }
}

fn sent(ready: &Ready, letter: &Letter) -> (Request<Bytes>, Value) {
    let request = ready.request(letter, at(5)).unwrap();
    let body = serde_json::from_slice(request.body()).unwrap();
    assert_eq!(request.headers()["content-type"], "application/json; charset=utf-8");
    (request, body)
}

#[test]
fn a_webhook_gets_all_of_it_and_a_signature() {
    let url = "https://hook.example/in".to_owned();
    let ready = Ready::Webhook { url, secret: Some("key".into()), bearer: Some("word".into()) };
    let (request, body) = sent(&ready, &letter());
    let wanted = json!({
        "version": 1, "test": false, "namespace": "ns", "coordinator": "http://a:1", "at": "2026-11-25T05:20:05Z",
        "title": "[rosterd ns] 2 alarms, 1 resolved", "more": 2,
        "raised": [
            {
                "key": "clock_off@http://a:1", "alarm": "clock_off", "rule": "clock_off", "severity": "critical",
                "text": "its <clock> is off & on", "since": "2026-11-25T05:20:00Z", "raisedAt": "2026-11-25T05:20:01Z",
                "href": "https://console.example/rosterd/cluster",
            },
            {
                "key": "failed:report", "alarm": "failed", "rule": "failed", "severity": "error", "jobName": "report",
                "text": "report failed for item 0 once", "since": "2026-11-25T05:20:00Z",
                "raisedAt": "2026-11-25T05:20:01Z", "href": "https://console.example/rosterd/jobs/report",
            },
        ],
        "resolved": [{
            "key": "failed:日报", "alarm": "failed", "rule": "failed", "severity": "error", "jobName": "日报",
            "text": "日报 failed for item 0 once", "since": "2026-11-25T05:20:00Z", "raisedAt": "2026-11-25T05:20:01Z",
            "resolvedAt": "2026-11-25T05:20:03Z", "href": "https://console.example/rosterd/jobs/%E6%97%A5%E6%8A%A5",
        }],
    });
    assert_eq!(body, wanted);
    assert_eq!(request.headers()["authorization"], "Bearer word");
    let signature = webhook::signature("key", r#"{"a":1}"#, at(5));
    assert_eq!(
        signature,
        "t=1795584005000,v1=6126661ba815a08304789006d7cf8d7d6ea90c07fecc131e8f61f3fe84d2e8ea"
    );
    assert!(request.headers()[webhook::SIGNATURE].to_str().unwrap().starts_with("t=1795584005000,v1="));
}

#[test]
fn slack_gets_blocks_without_marks_of_its_own_in_texts() {
    let (_, body) =
        sent(&Ready::Slack { url: "https://hooks.slack.example/services/T/B/X".into() }, &letter());
    let lines = "\
:red_circle: *critical* <https://console.example/rosterd/cluster|its &lt;clock&gt; is off &amp; on> since 2026-11-25T05:20:00Z
:red_circle: *error* <https://console.example/rosterd/jobs/report|report failed for item 0 once> since 2026-11-25T05:20:00Z
:white_check_mark: resolved: <https://console.example/rosterd/jobs/%E6%97%A5%E6%8A%A5|日报 failed for item 0 once> at 2026-11-25T05:20:03Z
and 2 more";
    let wanted = json!({
        "text": "[rosterd ns] 2 alarms, 1 resolved",
        "blocks": [
            { "type": "header", "text": { "type": "plain_text", "text": "[rosterd ns] 2 alarms, 1 resolved" } },
            { "type": "section", "text": { "type": "mrkdwn", "text": lines } },
            { "type": "context", "elements": [{ "type": "mrkdwn", "text": "ns · http://a:1" }] },
        ],
    });
    assert_eq!(body, wanted);
}

#[test]
fn dingtalk_gets_signed_markdown_with_its_word() {
    let url = "https://oapi.dingtalk.com/robot/send?access_token=t".to_owned();
    let ready = Ready::DingTalk { url, secret: Some("SECabc".into()), keyword: Some("告警".into()) };
    let (request, body) = sent(&ready, &letter());
    let signed = "https://oapi.dingtalk.com/robot/send?access_token=t&timestamp=1795584005000&sign=hJN%2FoXwcKXgiFTMiORK0f4j40trYZhygM9f4BjXykHQ%3D";
    assert_eq!(request.uri().to_string(), signed);
    let text = "\
### [rosterd ns] 2 alarms, 1 resolved

告警

- critical: its <clock> is off & on (clock_off, since 2026-11-25T05:20:00Z)

- error: report failed for item 0 once (failed, since 2026-11-25T05:20:00Z)

- resolved: 日报 failed for item 0 once (failed, over at 2026-11-25T05:20:03Z)

- and 2 more: rosterd alarms list shows them";
    let markdown = json!({ "title": "[rosterd ns] 2 alarms, 1 resolved", "text": text });
    assert_eq!(body, json!({ "msgtype": "markdown", "markdown": markdown }));
    assert!(ready.check_answer(StatusCode::OK, br#"{"errcode":0,"errmsg":"ok"}"#).is_ok());
    let refused =
        ready.check_answer(StatusCode::OK, br#"{"errcode":310000,"errmsg":"sign not match"}"#).unwrap_err();
    assert!(refused.contains("sign not match"), "{refused}");
    assert!(ready.check_answer(StatusCode::OK, b"").is_err(), "an empty answer is not an acceptance");
}

#[test]
fn wecom_gets_markdown_that_fits() {
    let ready = Ready::WeCom { url: "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k".into() };
    let (_, body) = sent(&ready, &letter());
    let content = body["markdown"]["content"].as_str().unwrap();
    assert_eq!(body["msgtype"], "markdown");
    let first = "<font color=\"warning\">[rosterd ns] 2 alarms, 1 resolved</font>\n> critical: its <clock>";
    assert!(content.starts_with(first), "{content}");
    let long = Alarm { text: "报".repeat(400), ..alarm(Some("j")) };
    let many = Letter { raised: vec![long; 30], ..letter() };
    let (_, body) = sent(&ready, &many);
    let content = body["markdown"]["content"].as_str().unwrap();
    assert!(content.len() <= 4096 && content.len() > 3000 && content.ends_with('…'), "{}", content.len());
    let over = Letter { raised: Vec::new(), ..letter() };
    assert!(
        sent(&ready, &over).1["markdown"]["content"].as_str().unwrap().starts_with("<font color=\"info\">")
    );
    assert!(ready.check_answer(StatusCode::OK, br#"{"errcode":93000}"#).is_err());
}

#[test]
fn pagerduty_gets_an_event_whose_end_has_the_same_key() {
    let ready =
        Ready::PagerDuty { url: "https://events.pagerduty.com/v2/enqueue".into(), routing_key: "R".into() };
    let one = Letter { raised: vec![alarm(Some("report"))], resolved: Vec::new(), more: 0, ..letter() };
    let (_, body) = sent(&ready, &one);
    let wanted = json!({
        "routing_key": "R", "event_action": "trigger", "dedup_key": "rosterd/ns/failed:report", "client": "rosterd",
        "client_url": "https://console.example/rosterd/jobs/report",
        "links": [{ "href": "https://console.example/rosterd/jobs/report", "text": "rosterd" }],
        "payload": {
            "summary": "report failed for item 0 once", "source": "http://a:1", "severity": "error",
            "timestamp": "2026-11-25T05:20:00Z", "component": "report", "group": "ns", "class": "failed",
            "custom_details": { "rule": "failed", "raised_at": "2026-11-25T05:20:01Z" },
        },
    });
    assert_eq!(body, wanted);
    let over = Alarm { resolved_at: Some(at(3)), ..alarm(Some("report")) };
    let (_, body) = sent(&ready, &Letter { raised: Vec::new(), resolved: vec![over], ..one.clone() });
    let key = "rosterd/ns/failed:report";
    assert_eq!(body, json!({ "routing_key": "R", "event_action": "resolve", "dedup_key": key }));
    let long = Alarm { key: format!("failed:{}", "j".repeat(250)), ..alarm(Some("report")) };
    let (_, body) = sent(&ready, &Letter { raised: vec![long], ..one });
    let key = body["dedup_key"].as_str().unwrap();
    assert!(key.starts_with("rosterd/sha256:") && key.len() <= 255, "{key}");
}

#[test]
fn an_unsuccessful_answer_is_reported_with_its_text() {
    let ready = Ready::Slack { url: "https://hooks.slack.example/secret".into() };
    assert!(ready.check_answer(StatusCode::OK, b"ok").is_ok());
    let refusal = ready.check_answer(StatusCode::NOT_FOUND, b"no_service\n").unwrap_err();
    assert_eq!(refusal, "it answered 404 Not Found: no_service");
    let long = ready.check_answer(StatusCode::BAD_GATEWAY, &[b'x'; 5000]).unwrap_err();
    assert!(long.len() < 300, "{long}");
    let bad =
        Ready::Slack { url: "https://hooks slack/secret".into() }.request(&letter(), at(0)).unwrap_err();
    assert!(!bad.contains("secret"), "{bad}");
}

#[test]
fn a_mail_is_ascii_on_the_wire_and_reads_the_same() {
    use base64::Engine as _;
    let mail = Mail {
        host: "smtp.example".into(),
        port: 465,
        security: Security::Tls,
        login: None,
        from: "rosterd <r@example.org>".into(),
        to: vec!["a@example.org".into(), "b@example.org".into()],
        cc: vec!["c@example.org".into()],
        bcc: vec!["secret@example.org".into()],
        subject: "生产".into(),
    };
    let message = email::message(&mail, &letter(), "1.2", at(5));
    assert!(message.is_ascii() && message.lines().all(|line| line.len() <= 200));
    let (head, body) = message.split_once("\r\n\r\n").unwrap();
    let wanted = "\
Date: Wed, 25 Nov 2026 05:20:05 +0000\r
From: rosterd <r@example.org>\r
To: a@example.org, b@example.org\r
Cc: c@example.org\r
Subject: =?utf-8?B?55Sf5LqnIFtyb3N0ZXJkIG5zXSAyIGFsYXJtcywgMSByZXNvbHZlZA==?=\r
Message-ID: <1.2@rosterd>\r
Auto-Submitted: auto-generated\r
MIME-Version: 1.0\r
Content-Type: text/plain; charset=utf-8\r
Content-Transfer-Encoding: base64";
    assert_eq!(head, wanted);
    let text = base64::engine::general_purpose::STANDARD.decode(body.replace("\r\n", "")).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.starts_with("critical: its <clock> is off & on (clock_off, since 2026-11-25T05:20:00Z)\r\n"),
        "{text}"
    );
    assert!(text.contains("resolved: 日报 failed for item 0 once"), "{text}");
    assert!(text.contains("https://console.example/rosterd/jobs/report\r\n"), "{text}");
    // A line end in a subject begins no header.
    let odd = Mail { subject: "a\r\nBcc: evil@example.org".into(), ..mail };
    let message = email::message(&odd, &letter(), "1.3", at(5));
    assert!(!message.contains("\nBcc:"), "{message}");
}

#[test]
fn an_address_that_could_inject_headers_is_refused() {
    for good in ["a@b", "Ann <ann@example.org>", "a.b+c@example.org"] {
        assert!(email::address(good).is_some(), "{good}");
    }
    for bad in
        ["", "a", "@b", "a@", "a b@c", "a@b>", "<a@b", "a@b\r\nRCPT TO:<c@d>", "a\"@b", "ä@b", "Ä <a@b>"]
    {
        assert_eq!(email::address(bad), None, "{bad:?}");
    }
}
