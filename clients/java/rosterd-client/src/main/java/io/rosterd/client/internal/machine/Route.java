package io.rosterd.client.internal.machine;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.function.DoubleSupplier;

/** Which coordinator to try next, and when: the configured ones, then those that the last Welcome named. */
public final class Route {
    private static final long FIRST_DELAY = Times.millis(200);

    private final List<String> given;
    private final boolean credential;
    private final boolean ownAuthorities;
    private final Set<String> passedOver = new HashSet<>();
    private final DoubleSupplier chance;
    private List<String> addresses;
    private int position = -1;
    // Since the start, or since a stream has proved itself.
    private int losses;

    Route(Settings settings, DoubleSupplier chance) {
        given = List.copyOf(settings.servers());
        credential = settings.credential();
        ownAuthorities = settings.ownAuthorities();
        this.chance = chance;
        addresses = distinct(given, List.of());
    }

    /** {@return whether an address uses TLS} */
    public static boolean secure(String address) {
        return address.startsWith("https://");
    }

    int size() {
        return addresses.size();
    }

    /** Takes the addresses of a Welcome. Returns those that it ignores for the first time. */
    List<String> learn(List<String> named) {
        String current = position < 0 ? null : addresses.get(position);
        // A credential that was only sent over TLS is never sent in plain text.
        boolean tls = given.stream().allMatch(Route::secure);
        List<String> learned = new ArrayList<>();
        List<String> refused = new ArrayList<>();
        for (String address : named) {
            if (address.isEmpty()) continue;
            String whole = tls && !address.contains("://") ? "https://" + address : address;
            boolean trusted = (!tls || secure(whole)) && (given.contains(whole) || isTrusted(whole));
            if (trusted) learned.add(whole);
            else if (passedOver.add(whole)) refused.add(whole);
        }
        addresses = distinct(given, learned);
        position = addresses.indexOf(current);
        return refused;
    }

    /**
     * An attacker that answers a Hello could name any address, to get the credential or the worker's trust there: so the host
     * must be one that the user configured, or be certified by authorities that the user named.
     */
    private boolean isTrusted(String address) {
        if (!credential && given.stream().noneMatch(Route::secure)) return true;
        if (secure(address) && ownAuthorities) return true;
        String host = hostOf(address);
        return !host.isEmpty() && given.stream().map(Route::hostOf).anyMatch(host::equals);
    }

    /** All names of this machine count as one. */
    private static String hostOf(String address) {
        try {
            Address parts = new Address(address);
            return parts.isLoopback() ? "localhost" : parts.host().toLowerCase(Locale.ROOT);
        } catch (IllegalArgumentException invalid) {
            return "";
        }
    }

    /** The next coordinator in turn. */
    String take() {
        position = (position + 1) % addresses.size();
        return addresses.get(position);
    }

    /** A stream or an attempt was lost: how long to wait before the next. After the first loss, not at all. */
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
