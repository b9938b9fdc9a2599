/**
 * Elastic-Job's jobs of a Spring Boot application on rosterd: the configuration below {@code elasticjob} is read as Elastic-Job's
 * starter reads it, the coordinators are named by {@code rosterd.server}.
 */
package io.rosterd.spring.boot;
