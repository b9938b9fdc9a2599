package io.rosterd.client.internal.machine;

/**
 * A job as it is registered.
 *
 * @param job its name
 * @param handlerType what runs it
 * @param config a job file, or empty
 * @param overwrite whether the config replaces that of a job that exists
 */
public record Registration(String job, String handlerType, String config, boolean overwrite) {}
