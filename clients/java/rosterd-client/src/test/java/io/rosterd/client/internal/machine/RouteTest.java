package io.rosterd.client.internal.machine;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class RouteTest {
    private static Route route(boolean credential, boolean ownAuthorities, String... servers) {
        Settings settings =
                new Settings(List.of(servers), "", "here", Map.of(), 4, 0, 0, 0, 0, credential, ownAuthorities);
        return new Route(settings, () -> 1);
    }

    @Test
    void withoutACredentialWhatAWelcomeNamesIsUsed() {
        Route route = route(false, false, "a:1");
        assertEquals(List.of(), route.learn(List.of("b:1", "a:1", "https://c:1")));
        assertEquals(3, route.size());
    }

    @Test
    void aCredentialGoesToHostsThatWereGivenOnlyAndTheRestIsSaidOnce() {
        Route route = route(true, false, "a:1", "localhost:1");
        List<String> named = List.of("http://A:2", "127.0.0.1:3", "evil:1");
        assertEquals(List.of("evil:1"), route.learn(named));
        assertEquals(4, route.size());
        assertEquals(List.of(), route.learn(named));
    }

    @Test
    void overTlsAlsoToWhomTheUsersAuthoritiesVouchFor() {
        Route own = route(true, true, "https://a:1");
        assertEquals(List.of("http://b:1"), own.learn(List.of("https://b:1", "b:2", "http://b:1")));
        assertEquals(3, own.size());
        Route anybodys = route(false, false, "https://a:1");
        assertEquals(List.of("https://b:1"), anybodys.learn(List.of("https://b:1", "https://a:2")));
    }

    @Test
    void theFirstLossIsFollowedAtOnceAndTheRestWaitLongerAndLonger() {
        Route route = route(false, false, "a:1", "b:1");
        List<String> taken = List.of(route.take(), route.take(), route.take());
        assertEquals(List.of("a:1", "b:1", "a:1"), taken);
        List<Long> pauses = List.of(route.lost(500), route.lost(Times.millis(500)), route.lost(Times.millis(500)));
        assertEquals(List.of(0L, Times.millis(200), Times.millis(400)), pauses);
        assertEquals(Times.millis(500), route.lost(Times.millis(500)));
        route.good();
        assertEquals(0, route.lost(Times.millis(500)));
    }
}
