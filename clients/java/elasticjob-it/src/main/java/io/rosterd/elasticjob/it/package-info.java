/** Jobs as a team has them: they depend on Elastic-Job only, and record what they see. */
package io.rosterd.elasticjob.it;
