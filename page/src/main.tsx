import { render } from "preact";
import { App } from "./shell/app";
import { Session } from "./session/session";
import { applyTheme } from "./session/theme";

applyTheme();
const session = new Session(document.baseURI);
render(<App session={session} />, document.body);
void session.start();
