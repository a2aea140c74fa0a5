import { render } from "preact";
import { Session } from "./session/session";
import { applyTheme } from "./session/theme";
import { App } from "./shell/app";

applyTheme();
const session = new Session(document.baseURI);
render(<App session={session} />, document.body);
void session.start();
