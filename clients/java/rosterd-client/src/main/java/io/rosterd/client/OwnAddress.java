package io.rosterd.client;

import io.rosterd.client.internal.machine.Address;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** The address of this machine that faces a coordinator. */
final class OwnAddress {
    private static final long PATIENCE_SECONDS = 3;

    private OwnAddress() {}

    /** The host's name if there is no such address. */
    static String facing(String server) {
        return CompletableFuture.supplyAsync(() -> look(server))
                .completeOnTimeout("", PATIENCE_SECONDS, TimeUnit.SECONDS)
                .thenApply(found -> found.isEmpty() ? hostName() : found)
                .join();
    }

    private static String look(String server) {
        Address address = new Address(server);
        // A datagram socket sends nothing here: this only asks for a route.
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.connect(new InetSocketAddress(InetAddress.getByName(address.host()), address.port()));
            InetAddress own = socket.getLocalAddress();
            return own.isAnyLocalAddress() ? "" : own.getHostAddress();
        } catch (Exception none) {
            return "";
        }
    }

    private static String hostName() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException nameless) {
            return "localhost";
        }
    }
}
