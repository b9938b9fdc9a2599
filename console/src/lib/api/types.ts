// Made by `npm run types` from /api/openapi.json. Do not edit.
export interface paths {
  '/api': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Describes this API to people. */
    get: operations['page'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/cluster': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Shows the coordinators. */
    get: operations['cluster'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/errors/{code}': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Explains a code of a refusal. */
    get: operations['error_page'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/events': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Lists what was done to jobs and workers, and by whom, the latest first. */
    get: operations['events'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/fires': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Lists the scheduled times of all jobs, what became of each, and why it was not run, the latest first. */
    get: operations['fires'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/instances': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Lists instances: worker processes under each of their jobs. */
    get: operations['list_instances'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/instances/{instance}/drain': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /** Asks a worker process to finish what it runs and to leave all its jobs. */
    post: operations['drain'];
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Lists jobs. Sorted by jobName, status, state, cron, instanceCount or nextFireTime. */
    get: operations['list_jobs'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/config': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    /** Makes or changes jobs. */
    put: operations['put_config'];
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/config/check': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /** Checks a configuration and changes nothing: all defects by field, what it would change, and when it would fire. */
    post: operations['check_config'];
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/config/{job}': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Shows a job's configuration. */
    get: operations['get_config'];
    put?: never;
    post?: never;
    /** Removes a job and all that is known of it. */
    delete: operations['remove_job'];
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/count': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Counts the jobs. */
    get: operations['count_jobs'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/{job}': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Shows a job. */
    get: operations['get_job'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/{job}/disable': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /** Takes a job out of service. */
    post: operations['disable_job'];
    /** Takes a job back into service. */
    delete: operations['enable_job'];
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/{job}/fires': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Lists a job's scheduled times with the result of each, the latest first: those of the last hour unless said. */
    get: operations['list_fires'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/{job}/ownership': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Lists who owned a job's items, and why each changed hands, the latest first: as far as the span reaches into it. */
    get: operations['ownership'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/{job}/pause': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /** Holds a job's scheduled fires: they count as missed (paused). The assignment stays. */
    post: operations['pause_job'];
    /** Lets a job's scheduled fires go on, from the next one. */
    delete: operations['resume_job'];
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/{job}/sharding': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Lists a job's items. */
    get: operations['list_items'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/{job}/sharding/{item}/cancel': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /** Stops the run of an item that is in flight. */
    post: operations['cancel_run'];
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/{job}/sharding/{item}/disable': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /** Takes an item out of service. */
    post: operations['disable_item'];
    /** Takes an item back into service. */
    delete: operations['enable_item'];
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/{job}/sharding/{item}/explain': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Explains an item: which rule put it where it is, who was rejected and why, when it moved last, what it waits for, when it runs next. */
    get: operations['explain_item'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/{job}/shutdown': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /** Shuts a job's instances down for it, each as it is now; they may register again. */
    post: operations['shut_job_down'];
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/jobs/{job}/trigger': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /** Fires a job now. */
    post: operations['trigger'];
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/live': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Tells what happens from now on, each after its commit. */
    get: operations['live'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/openapi.json': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Describes this API to programs. */
    get: operations['document'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/overview': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Shows what needs attention first, and how much happens. */
    get: operations['overview'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/runs': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Lists runs, the latest first. */
    get: operations['runs'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/runs/{job}/{item}/{token}': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Shows one run, and all runs of its fire: more than one where it crashed and was run again. */
    get: operations['run'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/servers': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Lists machines. Sorted by serverIp, instancesNum or jobsNum. */
    get: operations['list_servers'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/servers/count': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Counts the machines. */
    get: operations['count_servers'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/servers/{server}': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    post?: never;
    /** Forgets a machine without instances. */
    delete: operations['remove_server'];
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/servers/{server}/disable': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /** Takes a machine out of service for all its jobs. */
    post: operations['disable_server'];
    /** Takes a machine back into service for all its jobs. */
    delete: operations['enable_server'];
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/servers/{server}/jobs': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Lists the jobs that a machine works for. */
    get: operations['server_jobs'];
    put?: never;
    post?: never;
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/servers/{server}/jobs/{job}': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    post?: never;
    /** Forgets, for one job, a machine without instances. */
    delete: operations['remove_server_job'];
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/servers/{server}/jobs/{job}/disable': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /** Takes a machine out of service for one job. */
    post: operations['disable_server_job'];
    /** Takes a machine back into service for one job. */
    delete: operations['enable_server_job'];
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/servers/{server}/jobs/{job}/shutdown': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /** Shuts a job's instances on a machine down. */
    post: operations['shut_server_job_down'];
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/servers/{server}/shutdown': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    get?: never;
    put?: never;
    /** Shuts all instances on a machine down. */
    post: operations['shut_server_down'];
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
  '/api/session': {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** Says who asks, and how one can log in. Open to everybody. */
    get: operations['get_session'];
    put?: never;
    /** Logs in: takes a credential and sets a cookie, for browsers. */
    post: operations['log_in'];
    /** Logs out. */
    delete: operations['log_out'];
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
}
export type webhooks = Record<string, never>;
export interface components {
  schemas: {
    /** @description Something that needs attention. */
    Attention: {
      /** @description The console's page that shows why, relative to where that is served. */
      href: string;
      /**
       * Format: int32
       * @description Where it is one item, or the first of several.
       */
      item?: number | null;
      job?: string | null;
      /**
       * @description `store`, `clock_off`, `damaged`, `no_worker`, `overdue`, `unassigned`, `crashed`, `timed_out`, `failed`, `not_run` or
       *     `draining`.
       */
      kind: string;
      /** @description Since when, where that is known. */
      since?: string | null;
      /** @description In a sentence. */
      text: string;
    };
    /** @description What is said of a configuration. */
    Checked: {
      /** @description All that is wrong; empty: it can be applied. */
      defects: components['schemas']['FieldDefect'][];
      /** @description `would_create`, `would_change` or `unchanged`; absent: it cannot be applied. */
      effect?: string | null;
      /** @description What would differ from what is stored. */
      fields: components['schemas']['FieldChange'][];
      /** @description As far as it can be read. */
      jobName?: string | null;
      /** @description The next 20 scheduled times that it would have; none: it would run only when triggered, or nothing is scheduled any more. */
      upcoming: string[];
      /** @description Fields that would be kept without effect, and what to use instead. */
      warnings: string[];
    };
    /** @description The cluster as the coordinator that is asked sees it. */
    Cluster: {
      coordinators: components['schemas']['Coordinator'][];
      /** @description `starting`, `serving`, `suspended`, `draining` or `clock_off`: of the coordinator that is asked. */
      health: string;
      namespace: string;
      version: string;
    };
    /** @description A coordinator. */
    Coordinator: {
      /** @description It answers this request. */
      asked: boolean;
      /**
       * Format: int64
       * @description Ahead of the store's clock.
       */
      clockAheadMs: number;
      draining: boolean;
      id: string;
      /**
       * Format: int64
       * @description From a scheduled time to its Trigger, the longest since it last wrote of itself.
       */
      lagMs: number;
      /**
       * Format: int64
       * @description Jobs that it leads.
       */
      leads: number;
      /**
       * Format: int64
       * @description Since a committed write last showed that its session lives; absent: not known.
       */
      provedAgoMs?: number | null;
      startedAt: string;
      url: string;
      version: string;
      /**
       * Format: int64
       * @description Workers whose streams end there.
       */
      workers: number;
    };
    /** @description All runs and results of fires, of a job or an item. Each only grows. */
    Counters: {
      /** Format: int64 */
      cancelled: number;
      /** Format: int64 */
      crashed: number;
      /** Format: int64 */
      failed: number;
      /**
       * Format: int64
       * @description Scheduled times merged into a later run.
       */
      misfired: number;
      /** @description Scheduled times that were not run, by reason. */
      missed: {
        [key: string]: number;
      };
      /** Format: int64 */
      runs: number;
      /** Format: int64 */
      skipped: number;
      /** Format: int64 */
      succeeded: number;
      /** Format: int64 */
      timedOut: number;
    };
    /** @description A code of the table of error codes. */
    ErrorPage: {
      code: string;
      /** @description What it means and what to do. */
      remedy: string;
      /** Format: int32 */
      status: number;
    };
    /** @description A line of the audit, or something that happened to a worker or an assignment. */
    Event: {
      at: string;
      jobName?: string | null;
      kind: string;
      /** @description The credential that asked for it; empty: anonymous, or nobody. */
      principal: string;
      what: string;
    };
    /** @description Why an item is where it is, and what it waits for. */
    Explanation: {
      /** Format: int32 */
      item: number;
      jobName: string;
      /** @description In their order: whose it is, by which rule, who else was there, when it moved, what it waits for, when it runs next. */
      sentences: components['schemas']['Sentence'][];
    };
    /** @description A field that differs. Values that may be secrets are replaced by their length. */
    FieldChange: {
      field: string;
      new?: string | null;
      old?: string | null;
    };
    /** @description Something that is wrong with a configuration. */
    FieldDefect: {
      /** @description Its path, for example `rosterd.retries.max_attempts`; empty: the whole. */
      field: string;
      /** @description What is wrong, and what to do. */
      message: string;
      /** @description The value, as far as it may be shown. */
      value?: string | null;
    };
    /** @description A scheduled time for an item, and its result. */
    Fire: {
      fireTime: string;
      instanceId?: string | null;
      /** Format: int32 */
      item: number;
      /** @description Of a missed one. */
      reason?: string | null;
      /** @description `pending`, `run`, `misfired`, `missed`, `skipped` or `unknown`. */
      result: string;
      /**
       * Format: int32
       * @description More than one after a failover.
       */
      runs: number;
      /** @description Of its last run. */
      state?: string | null;
    };
    /** @description A scheduled time for an item of some job, and its result. */
    FireOfJob: components['schemas']['Fire'] & {
      jobName: string;
      /** @description Why it was not run, in a sentence; absent: it was. */
      text?: string | null;
      /**
       * Format: int64
       * @description Of its last run.
       */
      token?: number | null;
    };
    /** @description A login. */
    Given: {
      /** @description The secret: `rosterd_…`. */
      credential: string;
    };
    /** @description A worker process under one of its jobs. */
    Instance: {
      client: string;
      /** @description The coordinator at which its stream ends. */
      coordinator: string;
      enabled: boolean;
      instanceId: string;
      /** Format: int32 */
      items: number;
      jobName: string;
      labels: {
        [key: string]: string;
      };
      /** Format: int32 */
      running: number;
      serverIp: string;
      /** Format: int32 */
      slots: number;
    };
    /** @description A job in full. */
    Job: components['schemas']['JobBrief'] & {
      /**
       * Format: int64
       * @description Grows with every election of a leader.
       */
      epoch: number;
      /** @description The job file, as YAML. */
      file: string;
      /**
       * Format: int64
       * @description Grows with every change of the assignment.
       */
      generation: number;
      /** @description The next scheduled times. */
      upcoming: string[];
    };
    /** @description A job in a list. */
    JobBrief: {
      counters: components['schemas']['Counters'];
      /** @description Absent: it runs only when triggered. */
      cron?: string | null;
      description: string;
      handlerType: string;
      /**
       * Format: int32
       * @description Instances that work for it now.
       */
      instanceCount: number;
      jobName: string;
      /** @description The coordinator that plans its assignment. */
      leader?: string | null;
      nextFireTime?: string | null;
      /**
       * Format: int32
       * @description Runs in flight.
       */
      running: number;
      /** Format: int32 */
      shardingTotalCount: number;
      /** @description `enabled`, `resharding`, `disabled`, `paused`, `no_worker`, `removing` or `damaged`. */
      state: string;
      status: components['schemas']['JobStatus'];
      timeZone: string;
    };
    /** @description What a change did to one job. */
    JobChange: {
      /** @description Where it was refused. */
      code?: string | null;
      /** @description `unchanged`, `would_create`, `would_change`, `created`, `changed`, `removed`, `requested` or `refused`. */
      effect: string;
      fields: components['schemas']['FieldChange'][];
      jobName: string;
      /** @description The same for people. */
      line: string;
      triggerId?: string | null;
      /** @description Fields that are kept without effect, and what to use instead. */
      warnings: string[];
    };
    /**
     * @description A job's status in Elastic-Job's words.
     * @enum {string}
     */
    JobStatus: 'OK' | 'CRASHED' | 'DISABLED' | 'SHARDING_FLAG';
    /** @description Words of a sentence that have a page. */
    Link: {
      /** @description A page of the console, relative to where that is served. */
      href: string;
      /** @description They stand so in the sentence. */
      text: string;
    };
    /** @description A way to log in. */
    Login: {
      /** @description An address, relative to the console's; with `?to=` a page to go on with. */
      href?: string | null;
      /** @description `credential`: POST it here. `oidc`: send the browser to `href`. */
      kind: string;
      /** @description How people know the provider. */
      name?: string | null;
    };
    /** @description What happens, and what needs attention. */
    Overview: {
      /** @description When it was looked. */
      at: string;
      /** @description What needs attention, the worst first; at most 500. */
      attention: components['schemas']['Attention'][];
      /** @description How many there are. */
      attentionCount: number;
      coordinators: number;
      /**
       * Format: int64
       * @description Runs that the coordinator that is asked started within the last minute.
       */
      firesPerMinute: number;
      jobs: number;
      /**
       * Format: int64
       * @description From a scheduled time to when user code began by its worker's clock, in milliseconds: half of the runs of the last minute
       *     began sooner. Absent: nothing ran.
       */
      lagP50Ms?: number | null;
      /**
       * Format: int64
       * @description The same for 99 of 100.
       */
      lagP99Ms?: number | null;
      /**
       * Format: int64
       * @description Runs in flight.
       */
      running: number;
      /**
       * Format: int64
       * @description Worker processes.
       */
      workers: number;
    };
    /** @description An item in the hands of one instance. */
    Ownership: {
      /** @description Why it lost it; `null`: it owns it still. */
      endReason?: string | null;
      from: string;
      /**
       * Format: int64
       * @description Of the assignment that gave it.
       */
      generation: number;
      instanceId: string;
      /** Format: int32 */
      item: number;
      /** @description Why it was given it. */
      reason: string;
      serverIp: string;
      /** @description `null`: it owns it still. */
      to?: string | null;
    };
    /** @description A refusal. */
    Problem: {
      /** @description The code, for programs: one of the table of error codes. */
      code: string;
      /** @description What is wrong here: the field, the value, the remedy. */
      detail: string;
      /**
       * Format: int32
       * @description The HTTP status.
       */
      status: number;
      /** @description What the code means. */
      title: string;
      /** @description Where the code is explained, relative to this server. */
      type: string;
    };
    /** @description A run, as the history of the coordinator that is asked keeps it. */
    Run: {
      /** Format: int32 */
      attempt: number;
      endedAt?: string | null;
      error: string;
      /** Format: int64 */
      failed: number;
      fireTime: string;
      instanceId: string;
      /** Format: int32 */
      item: number;
      jobName: string;
      /** @description Absent: it is in flight, or its end was not seen. */
      outcome?: string | null;
      output: string;
      /** Format: int64 */
      processed: number;
      source: string;
      startedAt: string;
      /** @description Elastic-Job's name of its state: TASK_RUNNING, TASK_FINISHED, TASK_ERROR, TASK_FAILED, TASK_KILLED, TASK_LOST, TASK_UNKNOWN. */
      state: string;
      taskId: string;
      /** Format: int64 */
      token: number;
      /** @description The trace of its fire; absent of runs of a job that was removed. */
      traceId?: string | null;
      /** @description Where people look at it, if the coordinator was told (`trace_url`). */
      traceUrl?: string | null;
    };
    /** @description A run with all runs of its fire. */
    RunOfFire: {
      /** @description In the order of their tokens; the run is among them. */
      attempts: components['schemas']['Run'][];
      run: components['schemas']['Run'];
    };
    /** @description One sentence. */
    Sentence: {
      links: components['schemas']['Link'][];
      /** @description `owner`, `rule`, `candidates`, `moved`, `waits` or `next`. */
      part: string;
      text: string;
    };
    /** @description A machine, over all jobs that know it. */
    Server: {
      /**
       * Format: int32
       * @description For how many of its jobs it is disabled.
       */
      disabledJobsNum: number;
      /**
       * Format: int32
       * @description Worker processes on it.
       */
      instancesNum: number;
      /** Format: int32 */
      jobsNum: number;
      serverIp: string;
    };
    /** @description A job that a machine works for. */
    ServerJob: {
      /** Format: int32 */
      instanceCount: number;
      jobName: string;
      /** @description `OK` or `DISABLED`, of this machine for this job; `CRASHED`: no instance is on it. */
      status: components['schemas']['JobStatus'];
    };
    /** @description Who asks, and how one can log in. */
    SessionView: {
      /** @description Whether who asks is known, or nobody needs to be: then `/api` may be looked at. */
      authenticated: boolean;
      /** @description To be sent as X-CSRF-Token with requests that change something; null without a session. */
      csrfToken?: string | null;
      /** @description When the session ends; null without one: the request itself showed a credential or a certificate. */
      expiresAt?: string | null;
      /** @description Names and patterns of the jobs that may be changed. */
      jobs: string[];
      /** @description Whether credentials are asked for at all. */
      loginRequired: boolean;
      /** @description The ways to log in. */
      logins: components['schemas']['Login'][];
      /** @description The credential's name; null where nobody is known. */
      principal?: string | null;
      /** @description worker, viewer, operator or admin. */
      role?: string | null;
    };
    /** @description An item. */
    Sharding: {
      counters: components['schemas']['Counters'];
      /** @description Another instance than its owner runs it, or its crashed run waits for one. */
      failover: boolean;
      /** @description Of the run in flight: its scheduled time, or its trigger's. */
      fireTime?: string | null;
      instanceId: string;
      /** Format: int32 */
      item: number;
      /** @description The latest scheduled time that is accounted for. */
      lastFireTime?: string | null;
      /** @description The outcome of the last run. */
      lastOutcome?: string | null;
      parameter: string;
      /** @description The machine of the instance that owns it; empty: none does. */
      serverIp: string;
      source?: string | null;
      status: components['schemas']['ShardingStatus'];
      /** @description Elastic-Job's id of the task; empty: none is in flight. */
      taskId: string;
      /**
       * Format: int64
       * @description Of the run in flight, else of the last one.
       */
      token: number;
    };
    /**
     * @description An item's status in Elastic-Job's words.
     * @enum {string}
     */
    ShardingStatus: 'DISABLED' | 'RUNNING' | 'SHARDING_FLAG' | 'PENDING' | 'COMPLETED';
  };
  responses: never;
  parameters: never;
  requestBodies: never;
  headers: never;
  pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
  page: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description A page. */
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'text/html': string;
        };
      };
    };
  };
  cluster: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Cluster'];
        };
      };
    };
  };
  error_page: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        code: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['ErrorPage'];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  events: {
    parameters: {
      query?: {
        /** @description Only of this job. */
        job?: string;
        /** @description Only of this item. */
        item?: number;
        /** @description Only runs of this state: TASK_RUNNING, TASK_FINISHED, TASK_ERROR and so on. */
        state?: string;
        /** @description Only events of this kind. */
        kind?: string;
        /** @description Only events that this credential asked for. */
        principal?: string;
        /** @description Not before this (RFC 3339). */
        from?: string;
        /** @description Before this (RFC 3339). */
        to?: string;
        /** @description Rows of a page: 1 to 1000, 100 unless said. */
        limit?: number;
        /** @description From the `Link` header of the last answer (`rel="next"`). */
        cursor?: string;
      };
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Event'][];
        };
      };
    };
  };
  fires: {
    parameters: {
      query?: {
        /** @description Only of this job. */
        job?: string;
        /** @description Not before this (RFC 3339); five minutes before `to` unless said. */
        from?: string;
        /** @description Before this (RFC 3339); now unless said. */
        to?: string;
        /** @description Rows of a page: 1 to 1000, 200 unless said. */
        limit?: number;
        /** @description From the `Link` header of the last answer (`rel="next"`). */
        cursor?: string;
      };
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['FireOfJob'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  list_instances: {
    parameters: {
      query?: {
        /** @description Only of this job. */
        job?: string;
      };
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Instance'][];
        };
      };
    };
  };
  drain: {
    parameters: {
      query?: {
        /** @description For its runs, in milliseconds; then they are handed back. Unless said: as long as the worker allows. */
        graceMs?: number;
      };
      header?: never;
      path: {
        instance: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  list_jobs: {
    parameters: {
      query?: {
        /** @description The field to sort by; `-` before it: in descending order. */
        sort?: string;
        /** @description Rows of a page: 1 to 10000, 1000 unless said. */
        limit?: number;
        /** @description From the `Link` header of the last answer (`rel="next"`). */
        cursor?: string;
        /** @description Only rows whose name holds this text, in any case. */
        contains?: string;
        /** @description Only jobs of this status. */
        status?: string;
      };
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobBrief'][];
        };
      };
    };
  };
  put_config: {
    parameters: {
      query?: {
        /** @description Change nothing, say what would be changed. */
        dryRun?: boolean;
      };
      header?: {
        /** @description The ETag of the configuration that this one replaces: if it is another by now, 412 and nothing is changed. Goes with one job. */
        'If-Match'?: string | null;
      };
      path?: never;
      cookie?: never;
    };
    /** @description A job file, JSON or YAML, with one job or several. */
    requestBody: {
      content: {
        'application/json': string;
      };
    };
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      400: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
      412: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  check_config: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    /** @description A job file with one job, JSON or YAML. */
    requestBody: {
      content: {
        'application/json': string;
      };
    };
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Checked'];
        };
      };
      400: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  get_config: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description A job file as JSON, Elastic-Job's field names. The header ETag names this state of it. */
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': Record<string, never>;
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  remove_job: {
    parameters: {
      query?: {
        /** @description Stop the runs in flight as well; else they finish. */
        cancel?: boolean;
      };
      header?: never;
      path: {
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  count_jobs: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description How many jobs there are. */
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'text/plain': number;
        };
      };
    };
  };
  get_job: {
    parameters: {
      query?: {
        /** @description How many scheduled times to come to list: 0 to 1000, 5 unless said. */
        upcoming?: number;
      };
      header?: never;
      path: {
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Job'];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  disable_job: {
    parameters: {
      query?: {
        /** @description Stop the runs in flight as well; else they finish. */
        cancel?: boolean;
      };
      header?: never;
      path: {
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  enable_job: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  list_fires: {
    parameters: {
      query?: {
        /** @description Only of this job. */
        job?: string;
        /** @description Only of this item. */
        item?: number;
        /** @description Only runs of this state: TASK_RUNNING, TASK_FINISHED, TASK_ERROR and so on. */
        state?: string;
        /** @description Only events of this kind. */
        kind?: string;
        /** @description Only events that this credential asked for. */
        principal?: string;
        /** @description Not before this (RFC 3339). */
        from?: string;
        /** @description Before this (RFC 3339). */
        to?: string;
        /** @description Rows of a page: 1 to 1000, 100 unless said. */
        limit?: number;
        /** @description From the `Link` header of the last answer (`rel="next"`). */
        cursor?: string;
      };
      header?: never;
      path: {
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Fire'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  ownership: {
    parameters: {
      query?: {
        /** @description Only of this job. */
        job?: string;
        /** @description Only of this item. */
        item?: number;
        /** @description Only runs of this state: TASK_RUNNING, TASK_FINISHED, TASK_ERROR and so on. */
        state?: string;
        /** @description Only events of this kind. */
        kind?: string;
        /** @description Only events that this credential asked for. */
        principal?: string;
        /** @description Not before this (RFC 3339). */
        from?: string;
        /** @description Before this (RFC 3339). */
        to?: string;
        /** @description Rows of a page: 1 to 1000, 100 unless said. */
        limit?: number;
        /** @description From the `Link` header of the last answer (`rel="next"`). */
        cursor?: string;
      };
      header?: never;
      path: {
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Ownership'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  pause_job: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  resume_job: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  list_items: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Sharding'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  cancel_run: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        job: string;
        item: number;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  disable_item: {
    parameters: {
      query?: {
        /** @description Stop the runs in flight as well; else they finish. */
        cancel?: boolean;
      };
      header?: never;
      path: {
        job: string;
        item: number;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  enable_item: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        job: string;
        item: number;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  explain_item: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        job: string;
        item: number;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Explanation'];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  shut_job_down: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  trigger: {
    parameters: {
      query?: {
        /** @description Only these, separated by commas. */
        items?: string;
        /** @description Where an item is running, run it once more after that; else the trigger is refused. */
        afterCurrent?: boolean;
      };
      header?: never;
      path: {
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  live: {
    parameters: {
      query?: {
        /** @description Only what happens to this job, and what belongs to none. */
        job?: string;
      };
      header?: {
        /** @description The id of the last event that was seen: those behind it follow. */
        'Last-Event-ID'?: string | null;
      };
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description Events run_started, run_ended, run_progress, fires_not_run, assigned, worker (change: attached, draining, left or dead), job (action: create, pause and so on), and lost where some were. */
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'text/event-stream': string;
        };
      };
    };
  };
  document: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description This API as OpenAPI 3.1. */
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': Record<string, never>;
        };
      };
    };
  };
  overview: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Overview'];
        };
      };
      503: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  runs: {
    parameters: {
      query?: {
        /** @description Only of this job. */
        job?: string;
        /** @description Only of this item. */
        item?: number;
        /** @description Only runs of this state: TASK_RUNNING, TASK_FINISHED, TASK_ERROR and so on. */
        state?: string;
        /** @description Only events of this kind. */
        kind?: string;
        /** @description Only events that this credential asked for. */
        principal?: string;
        /** @description Not before this (RFC 3339). */
        from?: string;
        /** @description Before this (RFC 3339). */
        to?: string;
        /** @description Rows of a page: 1 to 1000, 100 unless said. */
        limit?: number;
        /** @description From the `Link` header of the last answer (`rel="next"`). */
        cursor?: string;
      };
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Run'][];
        };
      };
    };
  };
  run: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        job: string;
        item: number;
        token: number;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['RunOfFire'];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  list_servers: {
    parameters: {
      query?: {
        /** @description The field to sort by; `-` before it: in descending order. */
        sort?: string;
        /** @description Rows of a page: 1 to 10000, 1000 unless said. */
        limit?: number;
        /** @description From the `Link` header of the last answer (`rel="next"`). */
        cursor?: string;
        /** @description Only rows whose name holds this text, in any case. */
        contains?: string;
        /** @description Only jobs of this status. */
        status?: string;
      };
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Server'][];
        };
      };
    };
  };
  count_servers: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'text/plain': number;
        };
      };
    };
  };
  remove_server: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        server: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  disable_server: {
    parameters: {
      query?: {
        /** @description Stop the runs in flight as well; else they finish. */
        cancel?: boolean;
      };
      header?: never;
      path: {
        server: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  enable_server: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        server: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  server_jobs: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        server: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['ServerJob'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  remove_server_job: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        server: string;
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  disable_server_job: {
    parameters: {
      query?: {
        /** @description Stop the runs in flight as well; else they finish. */
        cancel?: boolean;
      };
      header?: never;
      path: {
        server: string;
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  enable_server_job: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        server: string;
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  shut_server_job_down: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        server: string;
        job: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  shut_server_down: {
    parameters: {
      query?: never;
      header?: never;
      path: {
        server: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['JobChange'][];
        };
      };
      404: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  get_session: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['SessionView'];
        };
      };
    };
  };
  log_in: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody: {
      content: {
        'application/json': components['schemas']['Given'];
      };
    };
    responses: {
      /** @description The cookie rosterd_session is set: HttpOnly, SameSite=Strict. */
      200: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['SessionView'];
        };
      };
      400: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
      401: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
      403: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
      429: {
        headers: {
          [name: string]: unknown;
        };
        content: {
          'application/json': components['schemas']['Problem'];
        };
      };
    };
  };
  log_out: {
    parameters: {
      query?: never;
      header?: never;
      path?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      /** @description The session has ended, if there was one, and its cookie is taken away. */
      204: {
        headers: {
          [name: string]: unknown;
        };
        content?: never;
      };
    };
  };
}
