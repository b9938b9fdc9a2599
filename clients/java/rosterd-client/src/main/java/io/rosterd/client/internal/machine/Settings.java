package io.rosterd.client.internal.machine;

import java.util.List;
import java.util.Map;

/**
 * The options that the machine needs; times are nanoseconds.
 *
 * @param servers the configured coordinators
 * @param namespace the namespace that is expected; empty: whichever is served
 * @param address this machine, as operators know it
 * @param labels free labels
 * @param slots how many runs may be in flight
 * @param drainTimeout how long runs may take when the worker leaves
 * @param leaveTimeout how long the goodbye may take
 * @param connectTimeout how long connecting may take
 * @param longestDelay the longest pause between two attempts to connect
 * @param credential whether streams carry a credential
 * @param ownAuthorities whether the user named authorities for coordinators
 */
public record Settings(
        List<String> servers,
        String namespace,
        String address,
        Map<String, String> labels,
        int slots,
        long drainTimeout,
        long leaveTimeout,
        long connectTimeout,
        long longestDelay,
        boolean credential,
        boolean ownAuthorities) {}
