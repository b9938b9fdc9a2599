package io.rosterd.harness;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/** What `cargo xtask` has built in this repository. */
final class Repository {
    private Repository() {}

    /** The folder of builds. */
    static Path target() {
        String named = System.getenv("CARGO_TARGET_DIR");
        return named != null ? Path.of(named) : root().resolve("target");
    }

    private static Path root() {
        Path at = Path.of("").toAbsolutePath();
        while (at != null && !Files.isRegularFile(at.resolve("proto/rosterd/v1/worker.proto"))) at = at.getParent();
        if (at == null) throw new AssertionError("run the tests within the repository");
        return at;
    }

    /** The coordinator: {@code ROSTERD_BINARY}, else the latest build. */
    static String binary() {
        String named = System.getenv("ROSTERD_BINARY");
        if (named != null) return named;
        return Stream.of("shipped", "release")
                .map(profile -> target().resolve(profile).resolve("rosterd"))
                .filter(Files::isExecutable)
                .findFirst()
                .orElseThrow(() -> new AssertionError(
                        "there is no rosterd: `cargo build --release`, or name one by ROSTERD_BINARY"))
                .toString();
    }

    /** ZooKeeper's classes. */
    static Path zookeeper() {
        Path folder = target().resolve("zookeeper");
        if (!Files.isRegularFile(folder.resolve("zookeeper-3.9.5.jar"))) {
            throw new AssertionError(folder + " has no ZooKeeper: run `cargo xtask setup`");
        }
        return folder;
    }
}
