import { render } from "preact";
import { App } from "./shell/app";
import { Session } from "./shell/session";
import { applyTheme } from "./shell/theme";

applyTheme();
const session = new Session(document.baseURI);
render(<App session={session} />, document.body);
void session.start();
