package io.rosterd.harness;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** A real ZooKeeper server, in a JVM of its own. */
public final class ZooKeeperServer implements AutoCloseable {
    private static final int ATTEMPTS = 3;

    private Kept process;
    private int port;

    /** Starts one and waits until it serves. */
    public ZooKeeperServer() {
        for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
            start();
            process.until("a ZooKeeper server that serves", () -> ask("srvr").contains("Mode:"));
            // Another test's server may have taken the port between its choice and its use: then that one answers.
            if (ask("conf").contains("dataDir=" + data() + "/")) return;
            process.close();
        }
        throw new AssertionError("another server took each of " + ATTEMPTS + " free ports");
    }

    private void start() {
        process = new Kept("zookeeper");
        port = freePort();
        Path config = process.folder().resolve("zoo.cfg");
        try {
            Files.writeString(config, """
                tickTime=1000
                dataDir=%s
                clientPort=%d
                clientPortAddress=127.0.0.1
                maxClientCnxns=0
                admin.enableServer=false
                4lw.commands.whitelist=*
                preAllocSize=1024
                """.formatted(data(), port));
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        process.start(List.of(
                java,
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Dzookeeper.jmx.log4j.disable=true",
                "-cp",
                Repository.zookeeper() + "/*",
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                config.toString()));
    }

    /** {@return where it listens, {@code host:port}} */
    public String servers() {
        return "127.0.0.1:" + port;
    }

    private Path data() {
        return process.folder().resolve("data");
    }

    /** Sends a four-letter command; without an answer the result is empty. */
    private String ask(String word) {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(2_000);
            socket.getOutputStream().write(word.getBytes(StandardCharsets.US_ASCII));
            return new String(socket.getInputStream().readAllBytes(), StandardCharsets.US_ASCII);
        } catch (IOException notYet) {
            return "";
        }
    }

    /** ZooKeeper itself does not report which port it took. */
    private static int freePort() {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    @Override
    public void close() {
        process.close();
    }
}
