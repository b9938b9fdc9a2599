package io.rosterd.client;

/** An option, a name or a value that is not valid; the message names it and the remedy. */
public final class InvalidOptionException extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message which option, its value, and the remedy
     */
    public InvalidOptionException(String message) {
        super(message);
    }
}
