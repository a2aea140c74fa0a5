import { begun, type Camera, centred, fitted, moved, type Size, showing, zoomed } from "./camera";

const DRAG_FROM_PX = 4;
const STEP_PX = 60;
const STEP_ZOOM = 1.25;

/** Moves and enlarges a picture by pointer, wheel and keyboard. Draws at most once a frame, past Preact: a drag changes
 * one attribute. */
export class Stage {
  private camera: Camera = { x: 0, y: 0, scale: 1 };
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private dragged = 0;
  private frame = 0;
  private fits = false;
  private readonly ended = new AbortController();
  private readonly observer = new ResizeObserver(() => this.fits && this.fit());

  constructor(
    private readonly svg: SVGSVGElement,
    private readonly content: SVGGElement,
    private readonly picture: Size,
  ) {
    const { signal } = this.ended;
    svg.addEventListener("pointerdown", this.down, { signal });
    svg.addEventListener("pointermove", this.move, { signal });
    svg.addEventListener("pointerup", this.up, { signal });
    svg.addEventListener("pointercancel", this.up, { signal });
    svg.addEventListener("click", this.click, { signal, capture: true });
    svg.addEventListener("wheel", this.wheel, { signal, passive: false });
    svg.addEventListener("keydown", this.key, { signal });
    this.observer.observe(svg);
    // At once, so that the picture is never drawn at another place first.
    this.camera = begun(this.picture, this.size());
    this.draw();
  }

  /** Ends all listening. */
  close(): void {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    this.ended.abort();
  }

  /** Shows the whole picture. It remains whole when the stage changes its size, until the next move. */
  fit(): void {
    this.fits = true;
    this.show(fitted(this.picture, this.size()));
  }

  /** Zooms around the middle. */
  zoom(factor: number): void {
    const { width, height } = this.size();
    this.change(zoomed(this.camera, factor, width / 2, height / 2));
  }

  /** Shows a part of the picture in the middle, large enough to be read. */
  approach(at: { x: number; y: number } & Size): void {
    this.camera = centred(this.camera, at, this.size());
    this.draw();
  }

  /** Moves the picture so that a part of it is seen. */
  reveal(at: { x: number; y: number } & Size): void {
    const next = showing(this.camera, at, this.size());
    if (next.x !== this.camera.x || next.y !== this.camera.y) this.change(next);
  }

  private readonly down = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    this.pointers.set(event.pointerId, this.at(event));
    if (this.pointers.size === 1) this.dragged = 0;
  };

  private readonly move = (event: PointerEvent): void => {
    const before = this.pointers.get(event.pointerId);
    if (before === undefined) return;
    const now = this.at(event);
    const others = [...this.pointers.entries()].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    this.dragged += Math.hypot(now.x - before.x, now.y - before.y);
    if (this.dragged < DRAG_FROM_PX) return;
    this.svg.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, now);
    let next = this.camera;
    const other = others[0];
    if (other !== undefined) {
      const by = distance(now, other) / Math.max(1, distance(before, other));
      next = zoomed(next, by, (now.x + other.x) / 2, (now.y + other.y) / 2);
    }
    const share = 1 / (others.length + 1);
    const across = (now.x - before.x) * share;
    this.change(moved(next, across, (now.y - before.y) * share, this.picture, this.size()));
  };

  private readonly up = (event: PointerEvent): void => {
    this.pointers.delete(event.pointerId);
  };

  /** The end of a drag is no click on the part under it. */
  private readonly click = (event: MouseEvent): void => {
    if (this.dragged < DRAG_FROM_PX || event.detail === 0) return;
    event.preventDefault();
    event.stopPropagation();
  };

  private readonly wheel = (event: WheelEvent): void => {
    event.preventDefault();
    const { x, y } = this.at(event);
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    this.change(zoomed(this.camera, Math.exp(-Math.max(-240, Math.min(240, event.deltaY * lines)) / 400), x, y));
  };

  /** Arrows move the picture while the stage itself has the focus; plus, minus and 0 always work. */
  private readonly key = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [x, y] = event.target === this.svg ? (ARROWS[event.key] ?? [0, 0]) : [0, 0];
    if (x !== 0 || y !== 0) this.change(moved(this.camera, x * STEP_PX, y * STEP_PX, this.picture, this.size()));
    else if (event.key === "+" || event.key === "=") this.zoom(STEP_ZOOM);
    else if (event.key === "-") this.zoom(1 / STEP_ZOOM);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
  };

  private change(camera: Camera): void {
    this.fits = false;
    this.show(camera);
  }

  private show(camera: Camera): void {
    this.camera = camera;
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private draw(): void {
    const { x, y, scale } = this.camera;
    this.content.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${scale.toFixed(4)})`);
  }

  private size(): Size {
    return { width: this.svg.clientWidth, height: this.svg.clientHeight };
  }

  private at(event: MouseEvent): { x: number; y: number } {
    const { left, top } = this.svg.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  }
}

function distance(one: { x: number; y: number }, other: { x: number; y: number }): number {
  return Math.hypot(one.x - other.x, one.y - other.y);
}

const ARROWS: Record<string, readonly [number, number]> = {
  ArrowLeft: [1, 0],
  ArrowRight: [-1, 0],
  ArrowUp: [0, 1],
  ArrowDown: [0, -1],
};
