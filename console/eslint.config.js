import svelte from 'eslint-plugin-svelte';
import ts from 'typescript-eslint';
import svelteConfig from './svelte.config.js';

export default ts.config(
  { ignores: ['dist', 'node_modules', 'src/lib/api/types.ts'] },
  ...ts.configs.recommended,
  ...svelte.configs.recommended,
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: { parserOptions: { parser: ts.parser, extraFileExtensions: ['.svelte'], svelteConfig } },
  },
  {
    rules: {
      // Whatever is stored stays text.
      'svelte/no-at-html-tags': 'error',
      'no-restricted-properties': [
        'error',
        { property: 'innerHTML', message: 'Texts of jobs and workers are never HTML.' },
        { property: 'outerHTML', message: 'Texts of jobs and workers are never HTML.' },
        { property: 'insertAdjacentHTML', message: 'Texts of jobs and workers are never HTML.' },
      ],
      // Addresses are made by lib/router, which knows the path prefix.
      'svelte/no-navigation-without-resolve': 'off',
      // What is replaced as a whole needs no reactive Map or Set.
      'svelte/prefer-svelte-reactivity': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
    },
  },
);
