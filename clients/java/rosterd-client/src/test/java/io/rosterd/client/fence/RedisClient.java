package io.rosterd.client.fence;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** The little of Redis's protocol that the tests need. */
final class RedisClient implements AutoCloseable {
    private final Socket socket;
    private final InputStream in;

    RedisClient(int port) throws IOException {
        socket = new Socket(InetAddress.getLoopbackAddress(), port);
        in = new BufferedInputStream(socket.getInputStream());
    }

    Object eval(String script, List<String> keys, List<String> arguments) {
        List<String> command = new ArrayList<>(List.of("EVAL", script, "" + keys.size()));
        command.addAll(keys);
        command.addAll(arguments);
        return call(command);
    }

    Object call(List<String> command) {
        try {
            ByteArrayOutputStream text = new ByteArrayOutputStream();
            text.writeBytes(("*" + command.size() + "\r\n").getBytes(StandardCharsets.UTF_8));
            for (String word : command) {
                byte[] bytes = word.getBytes(StandardCharsets.UTF_8);
                text.writeBytes(("$" + bytes.length + "\r\n").getBytes(StandardCharsets.UTF_8));
                text.writeBytes(bytes);
                text.writeBytes("\r\n".getBytes(StandardCharsets.UTF_8));
            }
            socket.getOutputStream().write(text.toByteArray());
            return answer();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private Object answer() throws IOException {
        String line = line();
        String rest = line.substring(1);
        switch (line.charAt(0)) {
            case '+' -> {
                return rest;
            }
            case ':' -> {
                return Long.parseLong(rest);
            }
            case '$' -> {
                int length = Integer.parseInt(rest);
                if (length < 0) return null;
                String text = new String(in.readNBytes(length), StandardCharsets.UTF_8);
                line();
                return text;
            }
            case '*' -> {
                List<Object> parts = new ArrayList<>();
                for (int left = Integer.parseInt(rest); left > 0; left--) parts.add(answer());
                return parts;
            }
            default -> throw new IOException("Redis says " + line);
        }
    }

    private String line() throws IOException {
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        for (int sign = in.read(); sign != '\r'; sign = in.read()) {
            if (sign < 0) throw new IOException("Redis has closed the connection");
            text.write(sign);
        }
        in.read();
        return text.toString(StandardCharsets.UTF_8);
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
