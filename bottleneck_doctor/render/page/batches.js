// In the lanes: shows one batch in the lane that made it and in the loop that waited for it.
"use strict";
