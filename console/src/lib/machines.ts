// The actions for a machine in its state.
import type { MenuEntry } from '../ui/Menu.svelte';
import { actions, machineActions } from './actions.svelte';
import type { Server, ServerJob } from './api/shapes';
import { t } from './i18n/index.svelte';
import { session } from './session.svelte';

function entries(address: string, job: string | undefined, disabled: boolean, live: boolean): MenuEntry[] {
  if (!session.may('operator')) return [];
  const { enable, disable, shutdown, forget } = machineActions;
  return [
    disabled
      ? { text: t('Enable'), icon: 'check', act: () => actions.ask(enable(address, job)) }
      : { text: t('Disable'), icon: 'ban', danger: true, act: () => actions.ask(disable(address, job)) },
    live
      ? { text: t('Shut down instances'), icon: 'stop', danger: true, act: () => actions.ask(shutdown(address, job)) }
      : { text: t('Forget'), icon: 'cross', danger: true, act: () => actions.ask(forget(address, job)) },
  ];
}

export function machineMenu(one: Server): MenuEntry[] {
  return entries(one.serverIp, undefined, one.disabledJobsNum > 0, one.instancesNum > 0);
}

export function machineJobMenu(address: string, one: ServerJob): MenuEntry[] {
  return entries(address, one.jobName, one.status === 'DISABLED', one.instanceCount > 0);
}
