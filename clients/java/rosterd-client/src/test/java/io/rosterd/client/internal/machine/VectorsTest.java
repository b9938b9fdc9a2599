package io.rosterd.client.internal.machine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rosterd.client.internal.machine.VectorPlayer.Came;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;

/** Plays the vectors of the specification, which the clients of all languages share. */
class VectorsTest {
    private static final Path FOLDER = Path.of(System.getProperty("rosterd.vectors", "../../spec/vectors"));
    /** Vectors that fail, by name. Empty at every release. */
    private static final Set<String> KNOWN_FAILURES = Set.of();

    @TestFactory
    Stream<DynamicTest> vectors() throws IOException {
        List<DynamicTest> tests = new ArrayList<>();
        Set<String> names = new TreeSet<>();
        try (Stream<Path> files = Files.list(FOLDER)) {
            for (Path file : files.filter(path -> path.toString().endsWith(".yaml"))
                    .sorted()
                    .toList()) {
                for (Object one :
                        (List<?>) new Yaml(new SafeConstructor(new LoaderOptions())).load(Files.readString(file))) {
                    Map<?, ?> vector = (Map<?, ?>) one;
                    String name = (String) vector.get("name");
                    assertTrue(names.add(name), "there are two vectors with the name: " + name);
                    tests.add(DynamicTest.dynamicTest(name, () -> play(vector)));
                }
            }
        }
        assertTrue(tests.size() > 50, "no more than " + tests.size() + " vectors in " + FOLDER);
        assertTrue(names.containsAll(KNOWN_FAILURES), "known failures that no vector has as its name");
        return tests.stream();
    }

    private static void play(Map<?, ?> vector) {
        String wrong = "";
        try {
            holds(vector);
        } catch (AssertionError | RuntimeException error) {
            wrong = String.valueOf(error.getMessage());
            if (!KNOWN_FAILURES.contains(vector.get("name"))) throw error;
        }
        assertEquals(KNOWN_FAILURES.contains(vector.get("name")), !wrong.isEmpty(), "it holds now");
    }

    private static void holds(Map<?, ?> vector) {
        Map<?, ?> given = map(vector, "given");
        VectorPlayer player = new VectorPlayer(given);
        if ("attached".equals(vector.get("begin"))) {
            List<String> jobs = given.get("jobs") instanceof List<?> named
                    ? named.stream().map(String.class::cast).toList()
                    : List.of("j", "k");
            player.attach(jobs, map(vector, "welcome"));
        }
        Object unlisted = vector.containsKey("unlisted") ? vector.get("unlisted") : List.of("run_started");
        for (Object one : (List<?>) vector.get("steps")) {
            Map<?, ?> step = (Map<?, ?>) one;
            List<?> passed = (List<?>) (step.containsKey("unlisted") ? step.get("unlisted") : unlisted);
            compare(step, player.play(step), passed);
        }
    }

    private static Map<?, ?> map(Map<?, ?> from, String key) {
        return from.get(key) instanceof Map<?, ?> found ? found : Map.of();
    }

    private static void compare(Map<?, ?> step, List<Came> all, List<?> unlisted) {
        boolean acknowledged = Boolean.TRUE.equals(step.get("acknowledge"));
        List<Came> came = all.stream()
                .filter(one -> !unlisted.contains(one.kind()))
                .filter(one -> !(acknowledged && one.kind().equals("heartbeat")))
                // A client may or may not close a stream that is lost.
                .filter(one -> !(step.containsKey("lost") && one.kind().equals("close")))
                .toList();
        List<Map.Entry<String, Map<?, ?>>> wanted = new ArrayList<>();
        if (step.get("expect") instanceof List<?> list) list.forEach(one -> wanted.add(kindOf((Map<?, ?>) one)));
        if (Boolean.TRUE.equals(step.get("in_order"))) {
            assertEquals(
                    wanted.stream().map(Map.Entry::getKey).toList(),
                    came.stream().map(Came::kind).toList(),
                    "step " + step);
        }
        Map<String, List<Came>> byKind = new LinkedHashMap<>();
        came.forEach(one ->
                byKind.computeIfAbsent(one.kind(), kind -> new ArrayList<>()).add(one));
        for (Map.Entry<String, Map<?, ?>> one : wanted) {
            Iterator<Came> next =
                    byKind.getOrDefault(one.getKey(), new ArrayList<>()).iterator();
            assertTrue(next.hasNext(), "no " + one.getKey() + " came at step " + step + "\ncame: " + came);
            Came found = next.next();
            next.remove();
            assertEquals("", mismatch(step, one, found), "step " + step + "\ncame: " + came);
        }
        byKind.values().removeIf(List::isEmpty);
        assertEquals(Map.of(), byKind, "more came than was expected at step " + step);
    }

    private static Map.Entry<String, Map<?, ?>> kindOf(Map<?, ?> effect) {
        for (Object key : effect.keySet()) {
            if (key.equals("at")) continue;
            if (!key.equals("send")) return Map.entry((String) key, effect);
            return Map.entry(
                    (String)
                            ((Map<?, ?>) effect.get("send")).keySet().iterator().next(),
                    effect);
        }
        throw new IllegalArgumentException("no effect in " + effect);
    }

    private static String mismatch(Map<?, ?> step, Map.Entry<String, Map<?, ?>> wanted, Came found) {
        Map<?, ?> effect = wanted.getValue();
        Object value =
                effect.get("send") instanceof Map<?, ?> sent ? sent.get(wanted.getKey()) : effect.get(wanted.getKey());
        String wrong = Expected.mismatch(wanted.getKey(), value == null ? Map.of() : value, found.value());
        if (!wrong.isEmpty()) return wrong;
        Object at = effect.containsKey("at") ? effect.get("at") : step.get("at");
        double from = (at instanceof List<?> range ? (Number) range.get(0) : (Number) at).doubleValue();
        double to = (at instanceof List<?> range ? (Number) range.get(1) : (Number) at).doubleValue();
        boolean inTime = found.at() >= from - 1 && found.at() <= to + 1;
        return inTime ? "" : wanted.getKey() + " came at " + found.at() + " instead of " + at;
    }
}
