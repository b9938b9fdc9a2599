//! Every route of `/api` and the access that it requires: REST's part of the one table of rights. Once credentials are
//! required, a path that is not in it is not served; a known path with another method passes as a read, and is refused
//! by the router. Called by `layers::methods` and by the router's tests.

use http::Method;

use crate::layers::takes::Access;

/// One route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    /// Segments in braces match any text.
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    /// Whether its answer continues until the client or the coordinator ends it.
    pub(crate) streams: bool,
}

const fn route(method: &'static str, path: &'static str, access: Access) -> Route {
    Route { method, path, access, streams: false }
}

/// The table. Literal segments come before those that match any text.
pub(crate) const ROUTES: &[Route] = &[
    route("GET", "/api/servers/count", Access::View),
    route("GET", "/api/servers", Access::View),
    route("POST", "/api/servers/{server}/disable", Access::Operate),
    route("DELETE", "/api/servers/{server}/disable", Access::Operate),
    route("POST", "/api/servers/{server}/shutdown", Access::Operate),
    route("DELETE", "/api/servers/{server}", Access::Operate),
    route("GET", "/api/servers/{server}/jobs", Access::View),
    route("POST", "/api/servers/{server}/jobs/{job}/disable", Access::Operate),
    route("DELETE", "/api/servers/{server}/jobs/{job}/disable", Access::Operate),
    route("POST", "/api/servers/{server}/jobs/{job}/shutdown", Access::Operate),
    route("DELETE", "/api/servers/{server}/jobs/{job}", Access::Operate),
    route("GET", "/api/jobs/count", Access::View),
    route("GET", "/api/jobs", Access::View),
    route("PUT", "/api/jobs/config", Access::Administer),
    route("POST", "/api/jobs/config/check", Access::Administer),
    route("GET", "/api/jobs/config/{job}", Access::View),
    route("DELETE", "/api/jobs/config/{job}", Access::Administer),
    route("GET", "/api/jobs/{job}", Access::View),
    route("POST", "/api/jobs/{job}/trigger", Access::Operate),
    route("POST", "/api/jobs/{job}/disable", Access::Operate),
    route("DELETE", "/api/jobs/{job}/disable", Access::Operate),
    route("POST", "/api/jobs/{job}/pause", Access::Operate),
    route("DELETE", "/api/jobs/{job}/pause", Access::Operate),
    route("POST", "/api/jobs/{job}/shutdown", Access::Operate),
    route("GET", "/api/jobs/{job}/sharding", Access::View),
    route("GET", "/api/jobs/{job}/sharding/{item}/explain", Access::View),
    route("POST", "/api/jobs/{job}/sharding/{item}/disable", Access::Operate),
    route("DELETE", "/api/jobs/{job}/sharding/{item}/disable", Access::Operate),
    route("POST", "/api/jobs/{job}/sharding/{item}/cancel", Access::Operate),
    route("GET", "/api/jobs/{job}/fires", Access::View),
    route("GET", "/api/jobs/{job}/ownership", Access::View),
    route("GET", "/api/instances", Access::View),
    route("POST", "/api/instances/{instance}/drain", Access::Operate),
    route("GET", "/api/runs", Access::View),
    route("GET", "/api/runs/{job}/{item}/{token}", Access::View),
    route("GET", "/api/fires", Access::View),
    route("GET", "/api/events", Access::View),
    route("GET", "/api/counts", Access::View),
    route("GET", "/api/cluster", Access::View),
    route("GET", "/api/overview", Access::View),
    route("GET", "/api/alarms", Access::View),
    route("PUT", "/api/alarms/silences/{id}", Access::Operate),
    route("DELETE", "/api/alarms/silences/{id}", Access::Operate),
    route("POST", "/api/alarms/test", Access::Operate),
    Route { streams: true, ..route("GET", "/api/live", Access::View) },
    // For callers that are about to send a credential.
    route("GET", "/api/session", Access::Anybody),
    route("POST", "/api/session", Access::Anybody),
    route("DELETE", "/api/session", Access::Anybody),
    route("GET", "/api/errors/{code}", Access::View),
    route("GET", "/api/openapi.json", Access::View),
    route("GET", "/api", Access::View),
];

/// The result of looking a request up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Route(Route),
    /// The path is known, but not with this method: one of its routes.
    OtherMethod(Route),
}

/// Looks a request up.
pub(crate) fn find(method: &Method, path: &str) -> Option<Found> {
    let mut other = None;
    for known in ROUTES.iter().filter(|known| matches(known.path, path)) {
        if known.method == method.as_str() || (*method == Method::HEAD && known.method == "GET") {
            return Some(Found::Route(*known));
        }
        other = other.or(Some(Found::OtherMethod(*known)));
    }
    other
}

/// The route that a path matches, as a label.
pub(crate) fn template(path: &str) -> Option<&'static str> {
    ROUTES.iter().map(|known| known.path).find(|known| matches(known, path))
}

fn matches(template: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted.starts_with('{') && !given.is_empty() => {}
            (Some(wanted), Some(given)) if wanted == given => {}
            _ => return false,
        }
    }
}

/// Whether a path belongs to this API, existing or not.
pub(crate) fn is_api(path: &str) -> bool {
    path.strip_prefix("/api").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, path: &str) -> Option<(&'static str, bool)> {
        match find(&method.parse().unwrap(), path)? {
            Found::Route(route) => Some((route.path, true)),
            Found::OtherMethod(route) => Some((route.path, false)),
        }
    }

    #[test]
    fn a_request_has_one_route() {
        assert_eq!(of("GET", "/api/jobs/count"), Some(("/api/jobs/count", true)));
        assert_eq!(of("GET", "/api/jobs/counts"), Some(("/api/jobs/{job}", true)));
        assert_eq!(of("DELETE", "/api/servers/a/jobs/b"), Some(("/api/servers/{server}/jobs/{job}", true)));
        assert_eq!(of("GET", "/api/jobs/report/trigger"), Some(("/api/jobs/{job}/trigger", false)));
        assert_eq!(of("HEAD", "/api/jobs"), Some(("/api/jobs", true)));
    }

    #[test]
    fn a_path_spelled_otherwise_has_no_route() {
        for path in
            ["/api/", "/api/jobs/", "//api/jobs", "/API/jobs", "/api/jobs//trigger", "/api/jobs/a/b", "/apis"]
        {
            assert_eq!(of("GET", path), None, "{path}");
        }
    }

    #[test]
    fn only_a_login_is_open_to_everybody() {
        let open = ROUTES.iter().filter(|route| matches!(route.access, Access::Open | Access::Anybody));
        assert!(open.map(|route| route.path).all(|path| path == "/api/session"));
    }

    #[test]
    fn what_changes_takes_more_than_a_look() {
        for route in ROUTES.iter().filter(|route| route.access != Access::Anybody) {
            assert_eq!(route.method == "GET", route.access == Access::View, "{route:?}");
        }
    }
}
