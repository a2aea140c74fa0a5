import { Foreign } from "../common/text";
import { hashOf } from "./route";

/** The way to an actor; a dash without one. */
export function ActorLink({ id }: { id: string | null }) {
  return id === null ? (
    <>–</>
  ) : (
    <a href={hashOf("tasks", id)}>
      <Foreign text={id} />
    </a>
  );
}
