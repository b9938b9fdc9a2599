//! Checks where a request comes from, as far as a browser shows it. A web page can make a person's browser send
//! requests to an address of that person's machine, under a name of the page's own, and no credential is needed there.
//! So gRPC is accepted over HTTP/2 only, which a browser does not use without TLS, and never from a page; and a
//! listener on loopback without credentials answers to the names of loopback only.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, Version, header};

use super::{is_grpc, refused};
use rosterd_runtime::telemetry::Metrics;
use rosterd_session::code::{Code, Refusal};
use rosterd_wire::text;

/// The rules for requests.
pub struct Origins {
    /// Only names of loopback are accepted.
    pub loopback: bool,
    /// Where refusals are counted.
    pub metrics: Arc<Metrics>,
}

/// The layer.
pub async fn layer(State(origins): State<Arc<Origins>>, request: Request, next: Next) -> Response {
    let grpc = is_grpc(request.headers());
    if let Err(refusal) = origins.decide(&request, grpc) {
        origins.metrics.refused.get_or_create(&[("code", refusal.code.as_str())]).inc();
        // Clients over HTTP/1.1 do not read a gRPC status.
        return refused(grpc && request.version() == Version::HTTP_2, &refusal);
    }
    next.run(request).await
}

impl Origins {
    fn decide(&self, request: &Request, grpc: bool) -> Result<(), Refusal> {
        if grpc && request.version() != Version::HTTP_2 {
            let what = format!("gRPC is spoken over HTTP/2 here, and this is {:?}", request.version());
            return Err(Refusal::new(Code::RequestInvalid, what));
        }
        if grpc {
            no_page(request.headers())?;
        } else if !request.method().is_safe() {
            own_page(request)?;
        }
        if self.loopback {
            let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
            let hosts = request.headers().get_all(header::HOST).iter().map(|host| host.as_bytes());
            authority.into_iter().chain(hosts).try_for_each(loopback)?;
        }
        Ok(())
    }
}

/// gRPC clients do not send these headers; a browser always does.
fn no_page(headers: &HeaderMap) -> Result<(), Refusal> {
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    let found = match headers.get(header::ORIGIN) {
        Some(origin) => format!("Origin {:?}", shown(origin.as_bytes())),
        None if site.is_some_and(|site| !matches!(site, b"none" | b"same-origin")) => {
            format!("Sec-Fetch-Site {:?}", shown(site.unwrap_or_default()))
        }
        None => return Ok(()),
    };
    let what =
        format!("{found}: gRPC is not for web pages: use a client of gRPC, which sends no such header");
    Err(Refusal::new(Code::OriginRefused, what))
}

/// A browser may send a change only from a page of this server, so that other pages cannot make use of a person's
/// password or loopback address. Other programs send neither header. What the browser itself says about the page
/// overrides a comparison of names, since a proxy may use another name than the browser did.
fn own_page(request: &Request) -> Result<(), Refusal> {
    let headers = request.headers();
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    let foreign = site.is_some_and(|site| !matches!(site, b"none" | b"same-origin"));
    if site.is_some() && !foreign {
        return Ok(());
    }
    let origin = headers.get(header::ORIGIN).map(|origin| origin.as_bytes());
    let of = |origin: &[u8]| -> Option<Vec<u8>> {
        let text = std::str::from_utf8(origin).ok()?;
        Some(text.split_once("://")?.1.as_bytes().to_ascii_lowercase())
    };
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let host = authority.or_else(|| headers.get(header::HOST).map(|host| host.as_bytes()));
    let host = host.map(<[u8]>::to_ascii_lowercase);
    let other = origin.is_some_and(|origin| of(origin).is_none_or(|origin| host.as_ref() != Some(&origin)));
    if !foreign && !other {
        return Ok(());
    }
    let page = origin.or(site).unwrap_or_default();
    let what = format!(
        "it comes from a page of {:?}: changes are taken from pages of this server and from programs",
        shown(page)
    );
    Err(Refusal::new(Code::OriginRefused, what))
}

fn loopback(host: &[u8]) -> Result<(), Refusal> {
    if std::str::from_utf8(host).is_ok_and(is_loopback) {
        return Ok(());
    }
    let what = format!(
        "host {:?}: without credentials this coordinator answers to localhost, 127.0.0.1 and [::1] alone, so that no \
         web page reaches it under a name of its own: use one of these, or start it with credentials",
        shown(host)
    );
    Err(Refusal::new(Code::OriginRefused, what))
}

/// Whether a host, with or without a port, is this machine under a name that cannot be made to resolve elsewhere.
fn is_loopback(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        return address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback()) && is_port(port);
    }
    let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
    let local = name.eq_ignore_ascii_case("localhost");
    (local || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())) && is_port(port)
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

fn shown(bytes: &[u8]) -> String {
    text::line(&String::from_utf8_lossy(bytes), 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_few_names() {
        for host in
            ["localhost", "localhost:7700", "LocalHost:1", "127.0.0.1", "127.0.0.1:7700", "127.8.0.1:1"]
        {
            assert!(is_loopback(host), "{host}");
        }
        assert!(is_loopback("[::1]") && is_loopback("[::1]:7700"));
        for host in [
            "",
            ":1",
            "a",
            "evil.example:7700",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1:7700",
            "localhost:x",
            "localhost:7700:1",
            "user@localhost",
            "::1",
            "[::1",
            "[::1]x",
            "[::2]:1",
            "0.0.0.0:7700",
            "127.1",
            "2130706433",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
