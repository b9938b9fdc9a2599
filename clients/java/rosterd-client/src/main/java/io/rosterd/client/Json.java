package io.rosterd.client;

import java.util.Map;

/** Writes JSON: texts, numbers, truth values, lists and objects; anything else as its text. */
final class Json {
    private Json() {}

    static String write(Object value) {
        StringBuilder text = new StringBuilder();
        value(text, value);
        return text.toString();
    }

    private static void value(StringBuilder text, Object value) {
        if (value instanceof Map<?, ?> object) {
            text.append('{');
            String separator = "";
            for (Map.Entry<?, ?> entry : object.entrySet()) {
                text.append(separator);
                string(text, entry.getKey().toString());
                text.append(':');
                value(text, entry.getValue());
                separator = ",";
            }
            text.append('}');
        } else if (value instanceof Iterable<?> list) {
            text.append('[');
            String separator = "";
            for (Object one : list) {
                text.append(separator);
                value(text, one);
                separator = ",";
            }
            text.append(']');
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            text.append(value);
        } else {
            string(text, String.valueOf(value));
        }
    }

    private static void string(StringBuilder text, String value) {
        text.append('"');
        for (int at = 0; at < value.length(); at++) {
            char sign = value.charAt(at);
            if (sign == '"' || sign == '\\') text.append('\\').append(sign);
            else if (sign < 0x20) text.append(String.format("\\u%04x", (int) sign));
            else text.append(sign);
        }
        text.append('"');
    }
}
