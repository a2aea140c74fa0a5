import { moment } from "../common/numbers";
import { Foreign } from "../common/text";
import type { Application } from "../server/document";
import { token, tokenWanted } from "../server/token";
import type { Session } from "../session/session";
import { chooseTheme, type Theme, theme } from "../session/theme";

/** The application's name and state, the connection, and the choices that hold for all views. */
export function Header({ session }: { session: Session }) {
  const application = session.application;
  return (
    <header class="top">
      <h1>
        <span class="brand">penstock</span>
        {application.value === undefined ? null : (
          <>
            {" "}
            <Foreign class="application" text={application.value.application_id} />
          </>
        )}
      </h1>
      {application.value === undefined ? null : (
        <State application={application.value} old={session.silence.value !== null} />
      )}
      <span class="grow" />
      <ConnectionNote session={session} />
      {token.value === "" ? null : (
        <button type="button" class="plain" onClick={() => session.signIn("")}>
          Forget token
        </button>
      )}
      <ThemeChoice />
    </header>
  );
}

/** The state of the application. `old`: it is the last one that is known. */
function State({ application, old }: { application: Application; old: boolean }) {
  const state = application.paused ? "PAUSED" : application.state;
  const generation = application.generation ?? 1;
  if (!state) return null;
  return (
    <span class="state" data-state={old ? undefined : state}>
      {old ? "last known: " : ""}
      {state.toLowerCase().replaceAll("_", " ")}
      {generation > 1 ? <span class="quiet"> · version {generation}</span> : null}
    </span>
  );
}

function ConnectionNote({ session }: { session: Session }) {
  const state = session.connection.value?.state.value ?? { name: "connecting" as const };
  const live = state.name === "live";
  const waits = tokenWanted.value ? "a token is needed" : "connecting";
  const text = live
    ? "live"
    : state.name === "connecting" || tokenWanted.value
      ? waits
      : `not connected since ${moment(state.since_ms, Date.now())}`;
  return (
    <span
      class="connection"
      data-testid="connection"
      data-state={state.name}
      title={state.name === "waiting" ? state.reason : undefined}
      role="status"
    >
      {text}
    </span>
  );
}

function ThemeChoice() {
  const themes: readonly Theme[] = ["system", "light", "dark"];
  return (
    <label class="theme">
      <span class="unseen">Theme</span>
      <select value={theme.value} onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}>
        {themes.map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </label>
  );
}
