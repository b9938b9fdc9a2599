package io.rosterd.client.fence;

import io.rosterd.client.Run;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.OptionalLong;

/**
 * Redis: a script compares the token and writes, with no other command in between. A key is a hash with the fields {@code value} and
 * {@code token}.
 */
public final class RedisFence {
    // Lua counts in floating point: tokens of 63 bits are compared as text, by length and then character by character.
    private static final String COMPARE = """
            local seen = redis.call('HGET', KEYS[1], 'token')
            if seen and (#seen > #ARGV[1] or (#seen == #ARGV[1] and seen > ARGV[1])) then return {0, seen} end
            """;
    private static final String SET = COMPARE + """
                    redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
                    return {1, ARGV[1]}
                    """;
    private static final String CLAIM = COMPARE + """
                    redis.call('HSET', KEYS[1], 'token', ARGV[1])
                    return {1, ARGV[1]}
                    """;

    /**
     * Evaluates a Lua script. Jedis: {@code jedis::eval}. Lettuce: {@code (script, keys, arguments) -> commands.eval(script,
     * ScriptOutputType.MULTI, keys.toArray(String[]::new), arguments.toArray(String[]::new))}.
     */
    @FunctionalInterface
    public interface Eval {
        /**
         * Evaluates.
         *
         * @param script the script
         * @param keys its keys
         * @param arguments its arguments
         * @return a list, as the script returns
         */
        Object eval(String script, List<String> keys, List<String> arguments);
    }

    private final Eval eval;

    /**
     * Makes one.
     *
     * @param eval how the program's client evaluates a script
     */
    public RedisFence(Eval eval) {
        this.eval = eval;
    }

    /**
     * Writes a key.
     *
     * @param key the key
     * @param value its value
     * @param run the run
     * @throws FencedException if a run with a higher token has written the key
     */
    public void set(String key, String value, Run run) {
        judge(key, run, eval.eval(SET, List.of(key), List.of(Long.toString(run.token()), value)));
    }

    /**
     * Claims a key for the run without a value: lower tokens are refused from then on.
     *
     * @param key the key
     * @param run the run
     * @throws FencedException if a run with a higher token has written the key
     */
    public void claim(String key, Run run) {
        judge(key, run, eval.eval(CLAIM, List.of(key), List.of(Long.toString(run.token()))));
    }

    private static void judge(String key, Run run, Object answer) {
        if (!(answer instanceof List<?> parts) || parts.size() != 2) {
            throw new IllegalStateException("key " + key + ": the script's answer is not a list of two: " + answer);
        }
        if (textOf(parts.get(0)).equals("1")) return;
        throw new FencedException("key " + key, run.token(), OptionalLong.of(Long.parseLong(textOf(parts.get(1)))));
    }

    private static String textOf(Object part) {
        return part instanceof byte[] bytes ? new String(bytes, StandardCharsets.US_ASCII) : String.valueOf(part);
    }
}
