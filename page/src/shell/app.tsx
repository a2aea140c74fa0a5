import { useComputed } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Findings } from "../overview/findings";
import { tokenWanted } from "../server/token";
import { Header } from "./header";
import { followRoute, hashOf, route } from "./route";
import type { Session } from "./session";
import { TokenForm } from "./token_form";
import { VIEWS, viewOf } from "./views";

followRoute();

/** The whole page. */
export function App({ session }: { session: Session }) {
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to the content
      </button>
      <Header session={session} />
      {tokenWanted.value ? <TokenForm session={session} /> : <Content session={session} />}
    </>
  );
}

function Content({ session }: { session: Session }) {
  const view = useComputed(() => viewOf(route.value.view)).value;
  const { known } = session.document;
  const subject = route.value.subject;
  useEffect(() => {
    document.title = `${view.title} – penstock`;
  }, [view]);
  return (
    <>
      <nav class="views" aria-label="Views">
        {VIEWS.map(({ name, title }) => (
          <a key={name} href={hashOf(name)} aria-current={name === view.name ? "page" : undefined}>
            {title}
          </a>
        ))}
      </nav>
      <main id="main" tabIndex={-1}>
        {known.value ? (
          <>
            <Findings session={session} most={view.name === "overview" ? Number.POSITIVE_INFINITY : 1} />
            <section data-view={view.name} aria-labelledby="view-title">
              <h2 id="view-title" class={view.name === "overview" ? "unseen" : ""}>
                {view.title}
              </h2>
              <view.component session={session} subject={subject} />
            </section>
          </>
        ) : (
          <p class="quiet" role="status">
            {session.problem.value === "" ? "Asking the application …" : session.problem.value}
          </p>
        )}
      </main>
    </>
  );
}
