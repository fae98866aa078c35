// Bundles src/main.tsx into the folder that OUT names, with hashed names and the licences of
// everything that went in. `tools/build_web.py` calls it; it fetches nothing.

import { build } from "esbuild";
import { copyFile, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";

const out = process.env.OUT ?? "../src/previously/web/static";
const entry = "src/main.tsx";

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });

const { metafile } = await build({
  entryPoints: [entry],
  bundle: true,
  splitting: true,
  format: "esm",
  minify: true,
  target: "es2022",
  outdir: join(out, "assets"),
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  jsx: "automatic",
  jsxImportSource: "preact",
  metafile: true,
  legalComments: "none", // they stand in THIRD_PARTY_LICENSES.txt
  logLevel: "warning",
});

const outputs = Object.entries(metafile.outputs);
const [script, main] = outputs.find(([, output]) => output.entryPoint === entry);
const preloads = main.imports
  .filter((imported) => imported.kind === "import-statement")
  .map((imported) => `<link rel="modulepreload" href="/assets/${basename(imported.path)}">`);

await writeFile(
  join(out, "index.html"),
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Previously · 前情提要</title>
<link rel="icon" type="image/svg+xml" href="/icon.svg">
<link rel="stylesheet" href="/assets/${basename(main.cssBundle)}">
<script type="module" src="/assets/${basename(script)}"></script>
${preloads.join("\n")}
</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript. The API under /api and the proxy work without it.</noscript>
</body>
</html>
`,
);
await copyFile("icon.svg", join(out, "icon.svg"));
await writeFile(join(out, "THIRD_PARTY_LICENSES.txt"), await licences(metafile));

for (const [name, output] of outputs) console.log(String(output.bytes).padStart(7), basename(name));

/** The licence of each package that ended up in the bundle; a package without one stops the build. */
async function licences({ inputs }) {
  const named = Object.keys(inputs).map(
    (path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1],
  );
  const texts = [];
  for (const name of [...new Set(named)].filter(Boolean).sort()) {
    const folder = join("node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const file = (await readdir(folder)).find((each) => /^licen[cs]e/i.test(each));
    if (!file) throw new Error(`${name} has no licence file`);
    texts.push(`## ${name} ${version} (${license})\n\n${await readFile(join(folder, file), "utf8")}`);
  }
  return texts.join("\n\n");
}
