/** The part of a picture that is seen: a position of the picture is shown at `x + scale * position`. */
export interface Camera {
  x: number;
  y: number;
  scale: number;
}

export interface Size {
  width: number;
  height: number;
}

const SMALLEST = 0.05;
const LARGEST = 4;
const READABLE = 1;
const BORDER = 16;

/** Returns the camera that shows the whole picture in the middle of the stage, and enlarges nothing. */
export function fitted(picture: Size, stage: Size): Camera {
  const across = (stage.width - 2 * BORDER) / Math.max(1, picture.width);
  const down = (stage.height - 2 * BORDER) / Math.max(1, picture.height);
  const scale = bounded(Math.min(1, across, down));
  return {
    x: (stage.width - picture.width * scale) / 2,
    y: (stage.height - picture.height * scale) / 2,
    scale,
  };
}

/** Returns the camera with which a picture begins: its texts can be read, and its top is seen. */
export function begun(picture: Size, stage: Size): Camera {
  const place = (length: number, room: number) => (length + 2 * BORDER <= room ? (room - length) / 2 : BORDER);
  return { x: place(picture.width, stage.width), y: place(picture.height, stage.height), scale: 1 };
}

/** Returns the camera after a zoom by `factor`. The position under (`x`, `y`) of the stage remains there. */
export function zoomed(camera: Camera, factor: number, x: number, y: number): Camera {
  const scale = bounded(camera.scale * factor);
  const by = scale / camera.scale;
  return { x: x - (x - camera.x) * by, y: y - (y - camera.y) * by, scale };
}

/** Returns the camera after a move of the picture by (`x`, `y`) pixels. A part of the picture remains on the stage. */
export function moved(camera: Camera, x: number, y: number, picture: Size, stage: Size): Camera {
  const least = 40;
  const inside = (at: number, length: number, room: number) =>
    Math.min(room - least, Math.max(least - length * camera.scale, at));
  return {
    ...camera,
    x: inside(camera.x + x, picture.width, stage.width),
    y: inside(camera.y + y, picture.height, stage.height),
  };
}

/** Returns the camera that shows a rectangle of the picture in the middle, large enough to be read. */
export function centred(camera: Camera, at: { x: number; y: number } & Size, stage: Size): Camera {
  const scale = Math.max(camera.scale, READABLE);
  return {
    x: stage.width / 2 - (at.x + at.width / 2) * scale,
    y: stage.height / 2 - (at.y + at.height / 2) * scale,
    scale,
  };
}

/** Returns the nearest camera that shows all of a rectangle of the picture. */
export function showing(camera: Camera, at: { x: number; y: number } & Size, stage: Size): Camera {
  return {
    ...camera,
    x: camera.x + shift(camera.x + at.x * camera.scale, at.width * camera.scale, stage.width),
    y: camera.y + shift(camera.y + at.y * camera.scale, at.height * camera.scale, stage.height),
  };
}

function shift(begin: number, length: number, room: number): number {
  if (begin < BORDER) return BORDER - begin;
  return begin + length > room - BORDER ? Math.max(BORDER - begin, room - BORDER - begin - length) : 0;
}

function bounded(scale: number): number {
  return Math.min(LARGEST, Math.max(SMALLEST, scale));
}
