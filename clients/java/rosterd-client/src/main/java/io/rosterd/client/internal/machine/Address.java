package io.rosterd.client.internal.machine;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Where a coordinator listens: {@code host:port}, {@code http://host:port} or {@code https://host:port}. */
public final class Address {
    private static final Pattern FORM =
            Pattern.compile("(?:https?://)?(\\[[0-9A-Fa-f:.]+\\]|[^\\s:/\\[\\]@]+)(?::([0-9]{1,5}))?/?");
    private static final Pattern LITERAL = Pattern.compile("[0-9.]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*");

    private final String host;
    private final int port;

    /**
     * Parses an address.
     *
     * @param address the text
     * @throws IllegalArgumentException if it is not one
     */
    public Address(String address) {
        Matcher parts = FORM.matcher(address);
        if (!parts.matches()) {
            throw new IllegalArgumentException("server '" + address
                    + "': invalid address: write host:port, http://host:port or https://host:port");
        }
        host = parts.group(1).replaceAll("[\\[\\]]", "");
        // Without a port the scheme's own.
        int ofScheme = Route.secure(address) ? 443 : 80;
        port = parts.group(2) == null ? ofScheme : Integer.parseInt(parts.group(2));
        if (port > 65_535) throw new IllegalArgumentException("server '" + address + "': there is no such port");
    }

    /** {@return the host, without brackets} */
    public String host() {
        return host;
    }

    /** {@return the port} */
    public int port() {
        return port;
    }

    /** {@return whether it is this machine, as far as known without a DNS lookup} */
    public boolean isLoopback() {
        if (host.equalsIgnoreCase("localhost")) return true;
        if (!LITERAL.matcher(host).matches()) return false;
        try {
            return InetAddress.getByName(host).isLoopbackAddress();
        } catch (UnknownHostException invalid) {
            return false;
        }
    }
}
