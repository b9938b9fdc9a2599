package io.rosterd.client.internal.machine;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/** Compares the expectation of a vector with the result. */
final class Expected {
    private Expected() {}

    /** Empty: it matches; otherwise the difference. */
    static String mismatch(String where, Object expected, Object actual) {
        if (expected instanceof Map<?, ?> map) return mismatch(where, map, actual);
        if (expected == null) return fits(actual == null, where, "nothing", actual);
        if (expected instanceof List<?> list) {
            boolean same = actual instanceof List<?> came && sorted(list).equals(sorted(came));
            return fits(same, where, expected, actual);
        }
        if (expected instanceof Number number && actual instanceof Number came) {
            double apart = Math.abs(number.doubleValue() - came.doubleValue());
            return fits(came instanceof Double ? apart <= 1 : apart == 0, where, expected, actual);
        }
        return fits(expected.equals(actual), where, expected, actual);
    }

    private static String mismatch(String where, Map<?, ?> expected, Object actual) {
        if (expected.containsKey("repeat")) return mismatch(where, Plain.text(expected), actual);
        if (expected.containsKey("contains")) {
            boolean has = actual instanceof String text && text.contains((String) expected.get("contains"));
            return fits(has, where, expected, actual);
        }
        if (expected.containsKey("bytes")) {
            int length = ((String) actual).getBytes(StandardCharsets.UTF_8).length;
            return mismatch(where + " bytes", expected.get("bytes"), length);
        }
        if (expected.containsKey("at_least") || expected.containsKey("at_most")) {
            if (!(actual instanceof Number came)) return fits(false, where, expected, actual);
            boolean least = !(expected.get("at_least") instanceof Number n) || came.doubleValue() >= n.doubleValue();
            boolean most = !(expected.get("at_most") instanceof Number n) || came.doubleValue() <= n.doubleValue();
            return fits(least && most, where, expected, actual);
        }
        if (!(actual instanceof Map<?, ?> fields)) return fits(expected.isEmpty(), where, expected, actual);
        for (Map.Entry<?, ?> field : expected.entrySet()) {
            if (!fields.containsKey(field.getKey())) return where + ": there is no field " + field.getKey();
            String wrong = mismatch(where + "." + field.getKey(), field.getValue(), fields.get(field.getKey()));
            if (!wrong.isEmpty()) return wrong;
        }
        return "";
    }

    private static List<String> sorted(List<?> list) {
        return list.stream().map(String::valueOf).sorted().toList();
    }

    private static String fits(boolean good, String where, Object expected, Object actual) {
        return good ? "" : where + ": wanted " + expected + ", got " + actual;
    }
}
