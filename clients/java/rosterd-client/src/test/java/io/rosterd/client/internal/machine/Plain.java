package io.rosterd.client.internal.machine;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.EnumDescriptor;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Duration;
import com.google.protobuf.Message;
import com.google.protobuf.Timestamp;
import io.rosterd.v1.RunRef;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Messages as the words of the vectors, and back: texts, numbers, lists and maps. */
final class Plain {
    /** The wall clock at time 0. */
    static final Instant EPOCH = Instant.parse("2026-01-01T00:00:00Z");

    private Plain() {}

    // ---- to a message

    static void fill(Message.Builder message, Map<?, ?> fields) {
        fields.forEach((name, value) -> {
            FieldDescriptor field = message.getDescriptorForType().findFieldByName((String) name);
            if (field == null) throw new IllegalArgumentException("no field " + name + " in " + message);
            if (value == null) return;
            if (field.isMapField()) {
                ((Map<?, ?>) value)
                        .forEach((key, one) -> message.addRepeatedField(
                                field,
                                message.newBuilderForField(field)
                                        .setField(field.getMessageType().findFieldByName("key"), key)
                                        .setField(field.getMessageType().findFieldByName("value"), text(one))
                                        .build()));
            } else if (field.isRepeated()) {
                for (Object one : (List<?>) value) message.addRepeatedField(field, of(message, field, one));
            } else {
                message.setField(field, of(message, field, value));
            }
        });
    }

    private static Object of(Message.Builder parent, FieldDescriptor field, Object value) {
        return switch (field.getJavaType()) {
            case INT -> ((Number) value).intValue();
            case LONG -> ((Number) value).longValue();
            case BOOLEAN -> value;
            case STRING -> text(value);
            case BYTE_STRING -> ByteString.copyFromUtf8(text(value));
            case ENUM -> enumValue(field.getEnumType(), value);
            case MESSAGE -> message(parent.newBuilderForField(field), value);
            default -> throw new IllegalArgumentException("unexpected type of " + field);
        };
    }

    private static Message message(Message.Builder builder, Object value) {
        String type = builder.getDescriptorForType().getFullName();
        switch (type) {
            case "google.protobuf.Duration" -> {
                return Times.span(Times.millis(((Number) value).longValue()));
            }
            case "google.protobuf.Timestamp" -> {
                return Times.stamp(EPOCH.plusMillis(((Number) value).longValue()));
            }
            case "rosterd.v1.RunRef" -> {
                return key((String) value).ref();
            }
            default -> {
                fill(builder, (Map<?, ?>) value);
                return builder.build();
            }
        }
    }

    static RunKey key(String run) {
        String[] parts = run.split("/");
        return new RunKey(parts[0], Integer.parseInt(parts[1]), Long.parseUnsignedLong(parts[2]));
    }

    static String text(Object value) {
        if (value instanceof Map<?, ?> repeated) {
            return ((String) repeated.get("repeat")).repeat(((Number) repeated.get("times")).intValue());
        }
        return (String) value;
    }

    private static EnumValueDescriptor enumValue(EnumDescriptor type, Object value) {
        if (value instanceof Number number) return type.findValueByNumberCreatingIfUnknown(number.intValue());
        EnumValueDescriptor found = type.findValueByName(prefix(type) + value);
        if (found == null) throw new IllegalArgumentException("no " + value + " in " + type.getFullName());
        return found;
    }

    private static String prefix(EnumDescriptor type) {
        return type.getName().replaceAll("(?<=[a-z])(?=[A-Z])", "_").toUpperCase() + "_";
    }

    // ---- from a message

    static Object of(Message message) {
        if (message instanceof Duration duration) return Times.nanos(duration) / 1e6;
        if (message instanceof Timestamp timestamp) return millis(Times.instant(timestamp));
        if (message instanceof RunRef ref) return name(RunKey.of(ref));
        Map<String, Object> fields = new LinkedHashMap<>();
        for (FieldDescriptor field : message.getDescriptorForType().getFields()) {
            fields.put(field.getName(), fieldOf(message, field));
        }
        return fields;
    }

    private static Object fieldOf(Message message, FieldDescriptor field) {
        if (field.isMapField()) {
            Map<Object, Object> map = new LinkedHashMap<>();
            for (Object entry : (List<?>) message.getField(field)) {
                Message one = (Message) entry;
                map.put(
                        one.getField(field.getMessageType().findFieldByName("key")),
                        one.getField(field.getMessageType().findFieldByName("value")));
            }
            return map;
        }
        if (field.isRepeated()) {
            return ((List<?>) message.getField(field))
                    .stream().map(one -> valueOf(field, one)).toList();
        }
        if (field.hasPresence() && !message.hasField(field)) return null;
        return valueOf(field, message.getField(field));
    }

    private static Object valueOf(FieldDescriptor field, Object value) {
        if (value instanceof Message message) return of(message);
        if (value instanceof ByteString bytes) return bytes.toStringUtf8();
        if (value instanceof EnumValueDescriptor one) {
            String prefix = prefix(field.getEnumType());
            return one.getName().startsWith(prefix) ? one.getName().substring(prefix.length()) : one.getNumber();
        }
        return value;
    }

    static double millis(Instant instant) {
        java.time.Duration since = java.time.Duration.between(EPOCH, instant);
        return since.getSeconds() * 1e3 + since.getNano() / 1e6;
    }

    static String name(RunKey key) {
        return key.job() + "/" + key.item() + "/" + Long.toUnsignedString(key.token());
    }
}
