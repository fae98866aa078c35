/** Text of a chat as safe markup. This is the only file that hands markup to the browser. */

import MarkdownIt from "markdown-it";
import type { JSX } from "preact";

// `html: false` shows tags as text. Images would be requests to strangers: their text stands instead.
const markdown = new MarkdownIt({ html: false, linkify: false, breaks: true }).disable("image");
markdown.validateLink = (url) => /^https?:\/\//i.test(url.trim());
markdown.renderer.rules["link_open"] = (tokens, index, options, _env, self) => {
  tokens[index]?.attrSet("rel", "noopener noreferrer nofollow");
  tokens[index]?.attrSet("target", "_blank");
  return self.renderToken(tokens, index, options);
};
// A heading in a message is no heading of this page.
markdown.renderer.rules["heading_open"] = () => '<p class="heading">';
markdown.renderer.rules["heading_close"] = () => "</p>\n";

export function Markdown({ text }: { text: string }): JSX.Element {
  return <div class="prose" dangerouslySetInnerHTML={{ __html: markdown.render(text) }} />;
}
