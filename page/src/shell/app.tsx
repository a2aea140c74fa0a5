import { useComputed } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { moment } from "../common/numbers";
import { Findings } from "../overview/findings";
import { tokenWanted } from "../server/token";
import { followRoute, hashOf, route } from "../session/route";
import type { Session } from "../session/session";
import { VIEWS, viewOf } from "../session/views";
import { Header } from "./header";
import { TokenForm } from "./token_form";
import { COMPONENTS } from "./views";

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
  const Shown = COMPONENTS[view.name];
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
            <Silence session={session} />
            <Findings session={session} most={view.name === "overview" ? Number.POSITIVE_INFINITY : 1} />
            <section data-view={view.name} aria-labelledby="view-title">
              <h2 id="view-title" class="unseen">
                {view.title}
              </h2>
              <Shown session={session} subject={subject} />
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

/** Says that all figures are old, while the coordinator or the server gives no new ones. */
function Silence({ session }: { session: Session }) {
  const silence = session.silence.value;
  return silence === null ? null : (
    <p class="finding" data-level="fault" role="alert">
      <strong class="level">Old figures</strong>
      <span class="sentence">
        {silence.what} has not answered since {moment(silence.since_ms, Date.now())}. All figures are from then.
      </span>
    </p>
  );
}
