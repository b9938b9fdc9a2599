package io.rosterd.client;

import io.rosterd.client.internal.machine.Registration;

/** A job of this worker. */
final class Job {
    private final Handler handler;
    private final JobOptions options;
    private final Registration registration;

    Job(String name, Handler handler, JobOptions options) {
        if (name == null || name.isEmpty()) throw new InvalidOptionException("job: a job needs a name: give one");
        this.handler = handler;
        this.options = options;
        registration = new Registration(name, options.handlerType(name), options.configOf(name), options.overwrite());
    }

    String name() {
        return registration.job();
    }

    Handler handler() {
        return handler;
    }

    JobOptions options() {
        return options;
    }

    Registration registration() {
        return registration;
    }
}
