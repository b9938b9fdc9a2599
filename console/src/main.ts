import { mount } from 'svelte';
import App from './App.svelte';
import './app.css';
import { languages } from './lib/i18n/index.svelte';
import { live } from './lib/live.svelte';
import { now } from './lib/now.svelte';
import { router } from './lib/router.svelte';
import { session } from './lib/session.svelte';
import { themes } from './lib/theme.svelte';

themes.start();
languages.start();
now.start();
router.start();
mount(App, { target: document.getElementById('app')! });
void session.start();
live.start();
