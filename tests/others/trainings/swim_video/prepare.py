"""Render the pool camera clips (synthetic stand-ins) and the annotation table."""
import csv
import os
import sys

import cv2
import numpy as np

W, H, FRAMES, CLIPS = 1280, 720, 120, 24


def render(path, stroke, rng):
    out = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"mp4v"), 25.0, (W, H))
    if not out.isOpened():
        raise SystemExit("cannot write " + path)
    small = rng.integers(60, 200, (90, 160, 3), dtype=np.uint8)
    water = cv2.resize(small, (W, H), interpolation=cv2.INTER_CUBIC)
    grain = rng.integers(0, 14, (H, W, 3), dtype=np.uint8)
    water = cv2.add(water, grain)
    period = (10, 16, 24, 34)[stroke]
    x0, y0 = rng.integers(80, 400), rng.integers(200, 520)
    for t in range(FRAMES):
        frame = np.roll(water, (t // 2) % W, axis=1)
        phase = 2 * np.pi * t / period
        x = int(x0 + 5 * t)
        cv2.ellipse(frame, (x, int(y0)), (92, 26), 0, 0, 360, (60, 90, 200), -1)
        for side in (-1, 1):
            a = phase if stroke in (1, 3) else phase + (side > 0) * np.pi
            tip = (int(x + 100 * np.cos(a)), int(y0 + side * (24 + 84 * abs(np.sin(a)))))
            cv2.line(frame, (x + 20, int(y0) + 16 * side), tip, (50, 80, 220), 16)
        out.write(frame)
    out.release()


def main():
    root = sys.argv[1]
    os.makedirs(os.path.join(root, "clips"), exist_ok=True)
    rng = np.random.default_rng(11)
    with open(os.path.join(root, "annotations.csv"), "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["file", "stroke", "frames", "split"])
        for i in range(CLIPS):
            name = f"lane_{i:03d}.mp4"
            render(os.path.join(root, "clips", name), i % 4, rng)
            w.writerow([name, i % 4, FRAMES, "val" if i % 6 == 5 else "train"])


if __name__ == "__main__":
    main()
