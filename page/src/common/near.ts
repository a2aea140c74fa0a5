import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";

/** Distance to the window in pixels within which an element is near: it is drawn before it is scrolled into view. */
const NEAR_PX = 600;

const told = new WeakMap<Element, (near: boolean) => void>();

let shared: IntersectionObserver | undefined;

function observer(): IntersectionObserver {
  shared ??= new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) told.get(target)?.(isIntersecting);
    },
    { rootMargin: `${NEAR_PX}px` },
  );
  return shared;
}

/** Returns true while the element is in view or near it. In long tables, rows far away need not follow each change. */
export function useNear(element: RefObject<Element | null>): boolean {
  const near = useSignal(true);
  useEffect(() => {
    const { current } = element;
    if (current === null) return;
    told.set(current, (now) => {
      near.value = now;
    });
    observer().observe(current);
    return () => observer().unobserve(current);
  }, [element, near]);
  return near.value;
}
