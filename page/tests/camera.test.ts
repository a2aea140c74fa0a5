import { describe, expect, it } from "vitest";
import { begun, centred, fitted, moved, showing, zoomed } from "../src/topology/camera";

const PICTURE = { width: 1000, height: 400 };
const STAGE = { width: 532, height: 332 };

describe("the camera", () => {
  it("shows the whole picture in the middle if it is to fit, and enlarges nothing", () => {
    expect(fitted(PICTURE, STAGE)).toEqual({ x: 16, y: 66, scale: 0.5 });
    expect(fitted({ width: 100, height: 50 }, STAGE)).toEqual({ x: 216, y: 141, scale: 1 });
    expect(fitted({ width: 0, height: 0 }, STAGE).scale).toBe(1);
  });

  it("begins at a size that can be read, at the top of the picture", () => {
    expect(begun(PICTURE, STAGE)).toEqual({ x: 16, y: 16, scale: 1 });
    expect(begun({ width: 100, height: 400 }, STAGE)).toEqual({ x: 216, y: 16, scale: 1 });
    expect(begun({ width: 100, height: 50 }, STAGE)).toEqual({ x: 216, y: 141, scale: 1 });
  });

  it("keeps the position under the pointer when it zooms", () => {
    const before = { x: 30, y: -20, scale: 0.5 };
    const after = zoomed(before, 1.7, 200, 100);
    expect((200 - after.x) / after.scale).toBeCloseTo((200 - before.x) / before.scale);
    expect((100 - after.y) / after.scale).toBeCloseTo((100 - before.y) / before.scale);
    expect(zoomed(before, 1e9, 0, 0).scale).toBe(4);
    expect(zoomed(before, 1e-9, 0, 0).scale).toBe(0.05);
  });

  it("never loses the picture", () => {
    const camera = fitted(PICTURE, STAGE);
    for (const by of [-1e6, 1e6]) {
      const { x, y } = moved(camera, by, by, PICTURE, STAGE);
      expect(x).toBeGreaterThanOrEqual(40 - PICTURE.width * camera.scale);
      expect(x).toBeLessThanOrEqual(STAGE.width - 40);
      expect(y).toBeGreaterThanOrEqual(40 - PICTURE.height * camera.scale);
      expect(y).toBeLessThanOrEqual(STAGE.height - 40);
    }
  });

  it("moves as little as needed to show a part, and brings one that is named to the middle", () => {
    const camera = { x: 0, y: 0, scale: 1 };
    const seen = { x: 100, y: 100, width: 50, height: 50 };
    expect(showing(camera, seen, STAGE)).toEqual(camera);
    expect(showing(camera, { ...seen, x: 600 }, STAGE)).toEqual({ x: -134, y: 0, scale: 1 });
    expect(showing(camera, { ...seen, x: -50 }, STAGE)).toEqual({ x: 66, y: 0, scale: 1 });
    const near = centred({ x: 0, y: 0, scale: 0.1 }, seen, STAGE);
    expect(near.scale).toBe(1);
    expect(near.x + 125 * near.scale).toBeCloseTo(STAGE.width / 2);
  });
});
