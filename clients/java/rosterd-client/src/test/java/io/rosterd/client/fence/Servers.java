package io.rosterd.client.fence;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** PostgreSQL and Redis for tests, from Debian's packages, and S3 by moto, from PyPI; each in a folder of its own, on loopback. */
final class Servers {
    private static final Path POSTGRES = Path.of("/usr/lib/postgresql");
    private static final Path REDIS = Path.of("/usr/bin/redis-server");
    /** From the environment that `cargo xtask setup` creates for the Python client. */
    private static final String S3 = "../../../target/python/bin/moto_server";

    private Servers() {}

    /** A server that runs. */
    record Started(int port, Process process, Path folder) implements AutoCloseable {
        @Override
        public void close() throws Exception {
            process.destroyForcibly().waitFor(10, TimeUnit.SECONDS);
            try (Stream<Path> paths = Files.walk(folder)) {
                for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) Files.deleteIfExists(path);
            }
        }
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    private static ProcessBuilder quiet(List<String> command) {
        return new ProcessBuilder(command)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD);
    }

    static Started redis() throws IOException {
        assertTrue(Files.exists(REDIS), "redis-server is not there: apt-get install redis-server");
        Path folder = Files.createTempDirectory("rosterd-redis-");
        int port = freePort();
        Process process = quiet(List.of(
                        REDIS.toString(),
                        "--port",
                        "" + port,
                        "--bind",
                        "127.0.0.1",
                        "--dir",
                        "" + folder,
                        "--save",
                        ""))
                .start();
        return new Started(port, process, folder);
    }

    static Started s3() throws IOException {
        Path program =
                Path.of(System.getenv().getOrDefault("ROSTERD_S3_SERVER", S3)).toAbsolutePath();
        assertTrue(
                Files.exists(program), program + " is not there: cargo xtask setup, or name one (ROSTERD_S3_SERVER)");
        Path folder = Files.createTempDirectory("rosterd-s3-");
        int port = freePort();
        Process process = quiet(List.of(program.toString(), "-H", "127.0.0.1", "-p", "" + port))
                .directory(folder.toFile())
                .start();
        return new Started(port, process, folder);
    }

    /** PostgreSQL does not run as root: as root, use the user of Debian's package. */
    private static List<String> asItsUser(List<String> command) {
        if (!System.getProperty("user.name").equals("root")) return command;
        List<String> whole =
                new ArrayList<>(List.of("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"));
        whole.addAll(command);
        return whole;
    }

    static Started postgres() throws Exception {
        assertTrue(Files.exists(POSTGRES), "PostgreSQL is not there: apt-get install postgresql");
        Path programs;
        try (Stream<Path> versions = Files.list(POSTGRES)) {
            programs = versions.max(Comparator.naturalOrder()).orElseThrow().resolve("bin");
        }
        Path folder = Files.createTempDirectory("rosterd-postgres-");
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxrwx"));
        String data = folder.resolve("data").toString();
        int made = quiet(asItsUser(List.of(
                        programs.resolve("initdb").toString(), "-D", data, "-U", "tests", "-A", "trust", "--no-sync")))
                .directory(folder.toFile())
                .start()
                .waitFor();
        assertTrue(made == 0, "initdb failed");
        int port = freePort();
        Process process = quiet(asItsUser(List.of(
                        programs.resolve("postgres").toString(),
                        "-D",
                        data,
                        "-p",
                        "" + port,
                        "-F",
                        "-c",
                        "listen_addresses=127.0.0.1",
                        "-c",
                        "unix_socket_directories=")))
                .directory(folder.toFile())
                .start();
        return new Started(port, process, folder);
    }
}
