package io.rosterd.client.internal.machine;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.function.DoubleSupplier;

/** Which coordinator to try next, and when: those that were given, then those that the last Welcome named. */
public final class Route {
    private static final long FIRST_DELAY = Times.millis(200);

    private final List<String> given;
    private final DoubleSupplier chance;
    private List<String> addresses;
    private int position = -1;
    // Since the start, or since a stream has proved itself.
    private int losses;

    Route(List<String> given, DoubleSupplier chance) {
        this.given = List.copyOf(given);
        this.chance = chance;
        addresses = distinct(given, List.of());
    }

    /** {@return whether an address is one of TLS} */
    public static boolean secure(String address) {
        return address.startsWith("https://");
    }

    int size() {
        return addresses.size();
    }

    void learn(List<String> named) {
        String current = position < 0 ? null : addresses.get(position);
        // A credential that went over TLS so far goes nowhere in plain text.
        boolean tls = given.stream().allMatch(Route::secure);
        List<String> learned = named.stream()
                .filter(address -> !address.isEmpty())
                .map(address -> tls && !address.contains("://") ? "https://" + address : address)
                .filter(address -> !tls || secure(address))
                .toList();
        addresses = distinct(given, learned);
        position = addresses.indexOf(current);
    }

    /** The next coordinator in turn. */
    String take() {
        position = (position + 1) % addresses.size();
        return addresses.get(position);
    }

    /** A stream or an attempt was lost: how long to wait before the next. The first loss is followed by one at once. */
    long lost(long longest) {
        losses++;
        if (losses == 1) return 0;
        long full = Math.min(longest, FIRST_DELAY << Math.min(losses - 2, 16));
        return (long) (full * (0.5 + 0.5 * chance.getAsDouble()));
    }

    /** The stream has proved itself. */
    void good() {
        losses = 0;
    }

    private static List<String> distinct(List<String> first, List<String> second) {
        Set<String> all = new LinkedHashSet<>(first);
        all.addAll(second);
        return new ArrayList<>(all);
    }
}
